"""Settings of django-allauth: how often an account request may come, and the pages of its links."""

ACCOUNT_RATES = {
    # the key is account and network: console/users/networks.py
    "login_failed": "10/m/ip,5/300s/key",
    # tries at one account from networks that it has not signed in from
    "login_elsewhere": "50/h/key",
    # Anyone can have mails sent to an address of their choice. The last of a day has a link that
    # is still good, so that this keeps no owner out.
    "reset_password": "20/m/ip,5/m/key,20/d/key",
    "confirm_email": "1/180s/key,20/d/key",
    "manage_email": "10/m/user,50/d/user",
    "provider_begin": "30/m/ip",
}


def account_pages(public_url: str) -> dict[str, str]:
    """The console's page for each kind of link that allauth sends."""
    return {
        "account_confirm_email": f"{public_url}/verify-email/{{key}}",
        "account_reset_password": f"{public_url}/reset-password",
        "account_reset_password_from_key": f"{public_url}/reset-password/{{key}}",
        "account_signup": f"{public_url}/signup",
        "socialaccount_login_error": f"{public_url}/signin",
    }
