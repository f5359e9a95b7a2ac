"""The mail server, as one URL: ``smtp://user:password@host:587`` (STARTTLS) or
``smtps://user:password@host:465``, with ``?from=`` and the sender of mails.
"""

from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

TIMEOUT_S = 10
SENDER = "tinkerscript@localhost"
PORTS = {"smtp": 587, "smtps": 465}


def mail_settings(url: str, *, name: str) -> dict[str, Any]:
    """Django's settings for it; without one, mails are written to the standard output. Raises
    ImproperlyConfigured.
    """
    if not url:
        return {
            "EMAIL_BACKEND": "django.core.mail.backends.console.EmailBackend",
            "DEFAULT_FROM_EMAIL": SENDER,
        }
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or PORTS[parts.scheme]
        sender = _sender(parts.query)
    except (ValueError, KeyError):
        host = None
    if not host or parts.path:
        raise ImproperlyConfigured(
            f"{name} does not read smtp://user:password@host:port, or that with "
            "?from=sender@example.org behind it."
        )
    # Loopback needs no secrecy, and servers there often have no certificate.
    is_local = host in ("127.0.0.1", "localhost", "::1")
    return {
        "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "DEFAULT_FROM_EMAIL": sender,
        "EMAIL_HOST": host,
        "EMAIL_PORT": port,
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_SSL": parts.scheme == "smtps",
        "EMAIL_USE_TLS": parts.scheme == "smtp" and not is_local,
        "EMAIL_TIMEOUT": TIMEOUT_S,
    }


def _sender(query: str) -> str:
    """The address of ``from=...``, in which a plus sign is no blank. Raises ValueError."""
    if not query:
        return SENDER
    option, _, given = query.partition("=")
    if option != "from" or "@" not in (sender := unquote(given)) or "&" in given:
        raise ValueError(query)
    return sender
