"""Who may make an account for themselves, and whether they must first prove that they read their
address.

closed    no one: `manage.py create_user` makes accounts
invited   an address that a project has invited
domains   an address of one of the domains that TINKERSCRIPT_SIGN_UP lists
open      every address

On a server that only this machine reaches sign-up is open by default, elsewhere it is by
invitation. Where others reach the server, an address must be confirmed before anything can be done
with the account: otherwise anyone could make one with another person's address, and wait for them.
"""

import ipaddress
import re
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from console.config.environment import read_text

POLICIES = ("closed", "invited", "open")
DOMAIN = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")


@dataclass(frozen=True)
class SignUp:
    """The settings of sign-up. ``domains`` are lower-case, and empty unless ``policy`` is
    ``domains``.
    """

    policy: str  # one of POLICIES, or domains
    domains: frozenset[str]
    verification: str  # none, optional or mandatory


def sign_up_read(public_url: str) -> SignUp:
    """From TINKERSCRIPT_SIGN_UP and TINKERSCRIPT_EMAIL_VERIFICATION.

    Raises ImproperlyConfigured.
    """
    is_local = is_loopback(public_url)
    policy = read_text("TINKERSCRIPT_SIGN_UP", "open" if is_local else "invited")
    domains: frozenset[str] = frozenset()
    if policy not in POLICIES:
        domains = frozenset(domain.strip() for domain in policy.lower().split(","))
        if wrong := sorted(domain for domain in domains if not DOMAIN.fullmatch(domain)):
            raise ImproperlyConfigured(
                f"TINKERSCRIPT_SIGN_UP: {wrong[0]!r} is none of {', '.join(POLICIES)} and no "
                "domain; domains read example.org,lab.example.org."
            )
        policy = "domains"
    default = "optional" if is_local else "mandatory"
    verification = read_text(
        "TINKERSCRIPT_EMAIL_VERIFICATION", default, among=("none", "optional", "mandatory")
    )
    if policy != "closed" and verification != "mandatory" and not is_local:
        raise ImproperlyConfigured(
            f"TINKERSCRIPT_EMAIL_VERIFICATION={verification} would let anyone use another person's "
            "address on a server "
            "that others reach: make it mandatory, or set TINKERSCRIPT_SIGN_UP=closed."
        )
    return SignUp(policy, domains, verification)


def is_loopback(url: str) -> bool:
    """Whether only programs of this machine reach ``url``."""
    host = (urlsplit(url).hostname or "").removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
        return (getattr(address, "ipv4_mapped", None) or address).is_loopback
    except ValueError:
        return False


def origin_default(host: str, port: int) -> str:
    """The origin of a server that listens on ``host``, where no setting names it.

    It is loopback only where the server listens on loopback alone: the defaults of sign-up and of
    limits follow it, and one that others reach must not be open to them by default.
    """
    if host in ("0.0.0.0", "::"):
        name = socket.gethostname().lower()
        if name and not is_loopback(f"http://{name}"):
            host = name
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
