"""What a SAML provider's response says, if it says it to us: python3-saml checks the signature and the times; here
stands what it leaves to its caller.

The profile is the web browser's (SAML 2.0 Profiles, 4.1): a request by HTTP-Redirect, the response by HTTP-POST.
"""

from typing import Any
from urllib.parse import urlsplit

import httpx
from django.conf import settings
from django.core.cache import cache
from onelogin.saml2.authn_request import OneLogin_Saml2_Authn_Request
from onelogin.saml2.constants import OneLogin_Saml2_Constants as Names
from onelogin.saml2.errors import OneLogin_Saml2_Error, OneLogin_Saml2_ValidationError
from onelogin.saml2.response import OneLogin_Saml2_Response
from onelogin.saml2.settings import OneLogin_Saml2_Settings
from onelogin.saml2.utils import OneLogin_Saml2_Utils

from console.config.saml import Saml, identity_provider_parse
from console.users.providers.saml import Assertion

ACS_PATH = "/sign-in/saml/acs"
METADATA_S = 3600  # how long a provider's metadata is taken for the present ones
METADATA_TIMEOUT_S = 10.0
CONFIRMATIONS = f"/saml:Subject/saml:SubjectConfirmation[@Method='{Names.CM_BEARER}']/saml:SubjectConfirmationData"
# A person's id at the provider, the best first (SAML V2.0 Subject Identifier Attributes; Entra ID's); else the NameID.
IDS = (
    "urn:oasis:names:tc:SAML:attribute:subject-id",
    "urn:oasis:names:tc:SAML:attribute:pairwise-id",
    "http://schemas.microsoft.com/identity/claims/objectidentifier",
)
EMAILS = (
    "urn:oid:0.9.2342.19200300.100.1.3",
    "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress",
    "urn:oid:1.2.840.113549.1.9.1",
    "email",
    "mail",
)
CONFIRMED = ("http://schemas.auth0.com/email_verified", "email_verified")
UNREADABLE = (
    OneLogin_Saml2_Error, OneLogin_Saml2_ValidationError, ValueError,
    SyntaxError,  # lxml's, of what is no XML
    LookupError, TypeError, AttributeError,  # python3-saml's, of an element without what it reads
)  # fmt: skip


class ResponseRefused(Exception):
    """The response does not prove who the person is; the text says why, for the log."""


def request_make(saml: Saml) -> tuple[str, str]:
    """A request's id, and the provider's address with it. Raises httpx.HTTPError, ValueError."""
    sp = _settings(saml, _provider(saml))
    request = OneLogin_Saml2_Authn_Request(sp, set_nameid_policy=False)
    url = sp.get_idp_data()["singleSignOnService"]["url"]
    return request.get_id(), OneLogin_Saml2_Utils.redirect(url, {"SAMLRequest": request.get_request()})


def response_read(saml: Saml, posted: str) -> Assertion:
    """``posted``: the form's SAMLResponse. Raises ResponseRefused, httpx.HTTPError, ValueError (of the metadata)."""
    provider = _provider(saml)
    sp = _settings(saml, provider)
    try:
        response = OneLogin_Saml2_Response(sp, posted)
        response.is_valid(_request_data(), raise_exceptions=True)
        return _assertion(saml, provider["entityId"], response)
    except UNREADABLE as error:
        raise ResponseRefused(str(error)) from None


def our_metadata(saml: Saml) -> bytes:
    """What the provider is given; nothing of the provider's is needed for it."""
    text = _settings(saml, None).get_sp_metadata()
    return text.encode() if isinstance(text, str) else text


def _assertion(saml: Saml, issuer: str, response: Any) -> Assertion:
    """Of a response that python3-saml takes, so it is by ``issuer``.

    It would also take one that does not say for whom, in answer to what.
    """
    if saml.entity_id not in response.get_audiences():
        raise ResponseRefused("it names no audience")
    request_id = response.get_in_response_to()
    confirmations = response._query_assertion(CONFIRMATIONS)  # noqa: SLF001 - reads the signed part alone
    expected = (f"{settings.PUBLIC_URL}{ACS_PATH}", request_id)
    if not (request_id and confirmations) or any(
        (each.get("Recipient"), each.get("InResponseTo")) != expected or not each.get("NotOnOrAfter")
        for each in confirmations
    ):
        raise ResponseRefused("its assertion is no answer to a request of ours")
    attributes: dict[str, list[str]] = response.get_attributes()
    email = _first(attributes, EMAILS)
    if email is None and response.get_nameid_format() == Names.NAMEID_EMAIL_ADDRESS:
        email = response.get_nameid()
    return Assertion(
        request_id=request_id,
        issuer=issuer,
        person_id=_first(attributes, IDS) or _name_id(response),
        email=email,
        email_verified=_first(attributes, CONFIRMED),
        groups=attributes.get(saml.groups_claim),
    )


def _name_id(response: Any) -> str:
    if response.get_nameid_format() == Names.NAMEID_TRANSIENT:
        raise ResponseRefused("its NameID is transient: the provider has to send a lasting id of the person")
    return str(response.get_nameid())


def _first(attributes: dict[str, list[str]], names: tuple[str, ...]) -> str | None:
    return next((value for name in names for value in attributes.get(name, []) if value), None)


def _settings(saml: Saml, provider: dict[str, Any] | None) -> Any:
    """Of python3-saml. Our addresses are those of PUBLIC_URL, whatever the Host header says."""
    return OneLogin_Saml2_Settings(
        {
            "strict": True,
            "sp": {
                "entityId": saml.entity_id,
                "assertionConsumerService": {
                    "url": f"{settings.PUBLIC_URL}{ACS_PATH}",
                    "binding": Names.BINDING_HTTP_POST,
                },
            },
            "idp": provider or {},
            "security": {
                "rejectDeprecatedAlgorithm": True,
                "requestedAuthnContext": False,
                "wantAttributeStatement": False,
                "allowRepeatAttributeName": True,
                "allowSingleLabelDomains": True,
            },
        },
        sp_validation_only=provider is None,
    )


def _provider(saml: Saml) -> dict[str, Any]:
    """As identity_provider_parse returns it. Raises httpx.HTTPError, ValueError."""
    return saml.provider or _of_url(saml.metadata_url)


def _of_url(url: str) -> dict[str, Any]:
    """What the metadata say at present. A redirect is not followed: the page behind it may be another's."""
    key = f"saml-metadata:{url}"
    known: dict[str, Any] | None = cache.get(key)
    if known is None:
        known = identity_provider_parse(httpx.get(url, timeout=METADATA_TIMEOUT_S).raise_for_status().content)
        cache.set(key, known, METADATA_S)
    return known


def _request_data() -> dict[str, Any]:
    parts = urlsplit(settings.PUBLIC_URL)
    return {"https": "on" if parts.scheme == "https" else "off", "http_host": parts.netloc, "script_name": ACS_PATH}
