"""Which e-mail addresses this server takes: those that are written as mail servers read them.

Django decodes and quotes anew what it hands to a mail server. Text that it takes for an address may
stand for another mailbox there (``=?utf-8?q?bob?=@example.org`` is mailed to bob@example.org), so
that one mailbox has addresses without end, each with limits of its own; or it stands for none, and
sending fails.
"""

from django.core.exceptions import ValidationError
from django.core.mail.message import sanitize_address
from django.core.validators import validate_email

from console.users.models import EMAIL_MAX_LENGTH


def address_check(address: str) -> None:
    """Raises ValidationError, in words for who typed it."""
    validate_email(address)
    if len(address) > EMAIL_MAX_LENGTH:
        raise ValidationError(f"An address has at most {EMAIL_MAX_LENGTH} characters.")
    name, _, domain = address.rpartition("@")
    if domain.startswith("["):
        raise ValidationError("An address ends in a domain's name, not in a number.")
    try:
        mailed_name, _, mailed_domain = sanitize_address(address, "utf-8").rpartition("@")
        spellings = mailed_domain.lower(), mailed_domain.lower().encode().decode("idna")
        is_as_mailed = mailed_name == name and domain.lower() in spellings
    except ValueError:  # UnicodeError is one
        is_as_mailed = False
    if not is_as_mailed:
        raise ValidationError(
            "Write the address as it is mailed to: no quotes, no encoded words, letters of ASCII "
            "before the @."
        )
