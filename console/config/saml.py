"""Sign-in with a SAML 2.0 identity provider: its metadata, our name there, whose addresses it vouches for, and which
groups give which role.

What the provider is given: PUBLIC_URL/sign-in/saml/metadata.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from console.config.environment import read_text
from console.config.group_roles import GroupRole, read_domains, read_group_roles
from console.config.sign_up import is_loopback

DESCRIPTION = re.compile(rb"<([\w.-]+:)?IDPSSODescriptor[\s>]")
METADATA = "TINKERSCRIPT_SAML_METADATA"
NAMES = (
    "TINKERSCRIPT_SAML_NAME",
    "TINKERSCRIPT_SAML_ENTITY_ID",
    "TINKERSCRIPT_SAML_TRUSTED_DOMAINS",
    "TINKERSCRIPT_SAML_GROUPS_ATTRIBUTE",
    "TINKERSCRIPT_SAML_ROLES",
)


@dataclass(frozen=True)
class Saml:
    """The provider's settings. ``trusted_domains`` are lower-case."""

    metadata_url: str  # empty: the metadata came from a file
    provider: dict[str, Any] = field(repr=False)  # of the file, as identity_provider_parse returns it
    name: str  # as the sign-in page shows it
    entity_id: str  # ours
    trusted_domains: frozenset[str]  # of addresses that count as confirmed where the provider says nothing about it
    groups_claim: str  # the attribute with a person's groups
    roles: tuple[GroupRole, ...]


def saml_read(public_url: str) -> Saml | None:
    """From TINKERSCRIPT_SAML_*; None without metadata. Raises ImproperlyConfigured."""
    source = read_text(METADATA, "")
    texts = {name: read_text(name, "") for name in NAMES}
    name, entity_id, domains, groups, _ = texts.values()
    if not source:
        if given := sorted(name for name, text in texts.items() if text):
            raise ImproperlyConfigured(f"{given[0]} does nothing without {METADATA}.")
        return None
    if not domains:
        raise ImproperlyConfigured(
            f"{METADATA} needs TINKERSCRIPT_SAML_TRUSTED_DOMAINS beside it: the domains whose addresses the provider's "
            "administrators assign. SAML does not say whether a person has confirmed an address."
        )
    is_url = source.startswith(("http://", "https://"))
    if source.startswith("http://") and not is_loopback(source):
        raise ImproperlyConfigured(f"{METADATA}={source!r}: it says whose signatures count, so it needs https://.")
    provider = {} if is_url else _of_file(source)
    return Saml(
        metadata_url=source if is_url else "",
        provider=provider,
        name=name or str(urlsplit(source if is_url else provider["entityId"]).hostname or provider.get("entityId")),
        entity_id=entity_id or f"{public_url}/sign-in/saml/metadata",
        trusted_domains=read_domains("TINKERSCRIPT_SAML_TRUSTED_DOMAINS"),
        groups_claim=groups or "groups",
        roles=read_group_roles("TINKERSCRIPT_SAML_ROLES"),
    )


def saml_provider(saml: Saml | None) -> dict[str, Any]:
    """The same in django-allauth's words (SOCIALACCOUNT_PROVIDERS)."""
    app = saml and {"provider_id": "saml", "client_id": "saml", "name": saml.name}
    return {"saml": {"APPS": [app] if app else [], "provider_class": "console.users.providers.saml.SamlProvider"}}


def identity_provider_parse(metadata: bytes) -> dict[str, Any]:
    """The one provider that the metadata describes, in python3-saml's words. Raises ValueError with what is wrong."""
    parser = _parser()
    try:
        described = parser.parse(metadata)
    except (SyntaxError, ValueError) as error:  # lxml's own error is a SyntaxError
        raise ValueError(f"it cannot be read as XML: {error}") from None
    if len(DESCRIPTION.findall(metadata)) > 1:
        raise ValueError("it describes several identity providers: take the metadata of one")
    provider: dict[str, Any] = described.get("idp", {})
    if not (provider.get("entityId") and provider.get("singleSignOnService")):
        raise ValueError("it describes no identity provider that a browser can be sent to (HTTP-Redirect binding)")
    if not _is_url(provider["singleSignOnService"].get("url", "")):
        raise ValueError("the address that a browser is sent to (SingleSignOnService) is no URL")
    certificates = provider.get("x509certMulti", {}).get("signing") or [provider.get("x509cert")]
    if not all(certificates):
        raise ValueError("it has no certificate for signatures")
    if not all(map(_is_certificate, certificates)):
        raise ValueError("what it has for a certificate (X509Certificate) is none")
    if described.get("security", {}).get("authnRequestsSigned") in (True, "true", "1"):
        raise ValueError("it asks for signed requests (WantAuthnRequestsSigned), which this server does not send")
    return provider


def _of_file(path: str) -> dict[str, Any]:
    try:
        return identity_provider_parse(Path(path).expanduser().read_bytes())
    except (OSError, ValueError) as error:
        raise ImproperlyConfigured(f"{METADATA}={path!r}: {error}.") from None


def _is_url(text: str) -> bool:
    """Whether python3-saml takes it for one: it asks again at each sign-in."""
    from onelogin.saml2.settings import validate_url

    return text.startswith(("http://", "https://")) and validate_url(text, allow_single_label_domain=True)


def _is_certificate(text: str) -> bool:
    """Whether signatures can be checked by it."""
    import xmlsec
    from onelogin.saml2.utils import OneLogin_Saml2_Utils

    try:
        xmlsec.Key.from_memory(OneLogin_Saml2_Utils.format_cert(text), xmlsec.constants.KeyDataFormatCertPem)
    except (xmlsec.Error, ValueError):
        return False
    return True


@lru_cache(1)
def _parser() -> Any:
    """Imported when SAML is used: it loads libxml2 and xmlsec."""
    try:
        from onelogin.saml2.idp_metadata_parser import OneLogin_Saml2_IdPMetadataParser as parser
    except ImportError as error:
        raise ImproperlyConfigured(f"{METADATA} needs the packages python3-saml and xmlsec: {error}.") from None
    return parser
