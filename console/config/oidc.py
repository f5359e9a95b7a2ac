"""Sign-in with an OpenID Connect provider: which one, what it is asked for, whose addresses it
vouches for, and which groups give which role.

The redirect URI to register with the provider is PUBLIC_URL/sign-in/oidc/callback.
"""

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from console.config.environment import read_pairs, read_text, read_url
from console.config.sign_up import DOMAIN, is_loopback
from tinkerscript.wire.account import Role

OPTIONS = "TINKERSCRIPT_OIDC_OPTIONS"
NAMES = (
    "TINKERSCRIPT_OIDC_CLIENT_ID",
    "TINKERSCRIPT_OIDC_CLIENT_SECRET",
    "TINKERSCRIPT_OIDC_ROLES",
    OPTIONS,
)
KEYS = ("name", "scopes", "groups_claim", "trusted_domains")
SCOPES = "openid profile email"
FORM = "group=prj_1f2e3d4c5b6a7988:member"  # an entry of TINKERSCRIPT_OIDC_ROLES
SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")  # RFC 6749, 3.3


@dataclass(frozen=True)
class GroupRole:
    """Who is in ``group`` has at least ``role`` in the project."""

    group: str
    project_id: str
    role: Role


@dataclass(frozen=True)
class Oidc:
    """The provider's settings. ``trusted_domains`` are lower-case."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    name: str  # as the sign-in page shows it
    # of addresses that count as confirmed where the provider says nothing about it
    trusted_domains: frozenset[str]
    groups_claim: str
    roles: tuple[GroupRole, ...]
    scopes: tuple[str, ...]  # that a sign-in asks the provider for


def oidc_read() -> Oidc | None:
    """None without TINKERSCRIPT_OIDC_ISSUER. Raises ImproperlyConfigured."""
    issuer = read_url("TINKERSCRIPT_OIDC_ISSUER", "", schemes=("http", "https"))
    texts = {name: read_text(name, "") for name in NAMES}
    client_id, client_secret, *_ = texts.values()
    if not issuer:
        if given := sorted(name for name, text in texts.items() if text):
            raise ImproperlyConfigured(f"{given[0]} does nothing without TINKERSCRIPT_OIDC_ISSUER.")
        return None
    if not (client_id and client_secret):
        raise ImproperlyConfigured(
            "TINKERSCRIPT_OIDC_ISSUER needs TINKERSCRIPT_OIDC_CLIENT_ID and "
            "TINKERSCRIPT_OIDC_CLIENT_SECRET beside it."
        )
    if issuer.startswith("http://") and not is_loopback(issuer):
        raise ImproperlyConfigured(
            f"TINKERSCRIPT_OIDC_ISSUER={issuer!r}: a provider of another machine needs https://."
        )
    options = read_pairs(OPTIONS, form="name=Example Lab,scopes=openid profile email groups")
    if unknown := sorted(options.keys() - set(KEYS)):
        raise ImproperlyConfigured(
            f"{OPTIONS}: {unknown[0]!r} is no option; there are {', '.join(KEYS)}."
        )
    return Oidc(
        issuer=issuer,
        client_id=client_id,
        client_secret=client_secret,
        name=options.get("name") or str(urlsplit(issuer).hostname),
        trusted_domains=_domains(options.get("trusted_domains", "")),
        groups_claim=options.get("groups_claim", "groups"),
        roles=_group_roles("TINKERSCRIPT_OIDC_ROLES"),
        scopes=_scopes(options.get("scopes", SCOPES)),
    )


def oidc_provider(oidc: Oidc | None) -> dict[str, Any]:
    """The same in django-allauth's words (SOCIALACCOUNT_PROVIDERS)."""
    app = oidc and {
        "provider_id": "oidc",
        "name": oidc.name,
        "client_id": oidc.client_id,
        "secret": oidc.client_secret,
        "settings": {
            "server_url": oidc.issuer,
            "oauth_pkce_enabled": True,
            "scope": list(oidc.scopes),
        },
    }
    return {
        "openid_connect": {
            "APPS": [app] if app else [],
            "provider_class": "console.users.providers.oidc.OidcProvider",
        }
    }


def _scopes(text: str) -> tuple[str, ...]:
    scopes = tuple(text.split())
    if wrong := [scope for scope in scopes if not SCOPE.fullmatch(scope)]:
        raise ImproperlyConfigured(f"{OPTIONS}: {wrong[0]!r} is no scope.")
    if "openid" not in scopes:
        raise ImproperlyConfigured(
            f"{OPTIONS}: scopes={text} lacks openid: scopes are separated by spaces, such as "
            f"scopes={SCOPES}."
        )
    return scopes


def _group_roles(name: str) -> tuple[GroupRole, ...]:
    """``group=project:role,group=project:role``."""
    return tuple(
        _role(name, entry.strip()) for entry in read_text(name, "").split(",") if entry.strip()
    )


def _domains(text: str) -> frozenset[str]:
    """The domains of ``text``, separated by spaces, in lower case."""
    domains = frozenset(text.lower().split())
    if wrong := sorted(domain for domain in domains if not DOMAIN.fullmatch(domain)):
        raise ImproperlyConfigured(f"{OPTIONS}: {wrong[0]!r} is no domain such as example.org.")
    return domains


def _role(name: str, entry: str) -> GroupRole:
    group, _, rest = entry.rpartition("=")
    project_id, _, role = rest.partition(":")
    if not (group and project_id.startswith("prj_") and role in set(Role)):
        raise ImproperlyConfigured(
            f"{name}: {entry!r} does not read {FORM}; roles are {', '.join(Role)}."
        )
    return GroupRole(group, project_id, Role(role))
