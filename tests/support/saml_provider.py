"""A SAML identity provider (pysaml2) on loopback, and a person's way through its page.

It signs with python-xmlsec in the place of the program xmlsec1, which not every machine has. ``changes`` are what a
hostile or careless provider, or someone on the way, would do to a response.
"""

import base64
import html
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import trustme
import xmlsec
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from django.http import HttpResponse
from django.test import Client
from lxml import etree
from saml2 import BINDING_HTTP_POST, BINDING_HTTP_REDIRECT
from saml2.config import IdPConfig
from saml2.metadata import entity_descriptor
from saml2.saml import NAMEID_FORMAT_PERSISTENT, NameID
from saml2.server import Server
from saml2.sigver import CryptoBackend
from saml2.xmldsig import DIGEST_SHA256, SIG_RSA_SHA256

BEGIN = "/sign-in/saml/begin?next=/signin/done"
ACS = "/sign-in/saml/acs"
FORM = (
    '<form method="post" action="{action}"><input type="hidden" name="SAMLResponse" value="{response}">'
    '<input type="hidden" name="RelayState" value=""></form><script>document.forms[0].submit()</script>'
)


class Signer(CryptoBackend):
    """What pysaml2 leaves to a program, by the same library."""

    def __init__(self, cert_file: str) -> None:
        super().__init__()
        self.cert_file = cert_file

    def sign_statement(self, statement: Any, node_name: str, key_file: str, node_id: str) -> str:
        document = etree.fromstring(statement if isinstance(statement, bytes) else str(statement).encode())
        xmlsec.tree.add_ids(document, ["ID"])
        (element,) = document.xpath("//*[@ID=$id]", id=node_id)
        context = xmlsec.SignatureContext()
        context.key = xmlsec.Key.from_file(key_file, xmlsec.constants.KeyDataFormatPem)
        context.sign(element.find("{http://www.w3.org/2000/09/xmldsig#}Signature"))
        return etree.tostring(document).decode()


@dataclass
class SamlProvider:
    """The provider at ``url``; ``people`` maps a name to (attributes, NameID)."""

    url: str
    sp_url: str
    server: Server
    people: dict[str, tuple[dict[str, Any], NameID]] = field(default_factory=dict)
    metadata_asked: int = 0

    def person_set(self, name: str, *, name_id: NameID | None = None, **attributes: Any) -> None:
        self.people[name] = (attributes, name_id or NameID(format=NAMEID_FORMAT_PERSISTENT, text=f"id-of-{name}"))

    def metadata(self) -> bytes:
        self.metadata_asked += 1
        return str(entity_descriptor(self.server.config)).encode()

    def response(self, location: str, name: str, **changes: Any) -> str:
        """What the provider says when the browser comes to ``location`` and signs in as ``name``: base64."""
        asked = parse_qs(urlsplit(location).query)["SAMLRequest"][0]
        request = self.server.parse_authn_request(asked, BINDING_HTTP_REDIRECT).message
        attributes, name_id = self.people[name]
        arguments = {
            "identity": attributes,
            "in_response_to": request.id,
            "destination": request.assertion_consumer_service_url,
            "sp_entity_id": request.issuer.text,
            "name_id": name_id,
            "sign_response": False,
            "sign_assertion": True,
            "sign_alg": SIG_RSA_SHA256,
            "digest_alg": DIGEST_SHA256,
            "authn": {"class_ref": "urn:oasis:names:tc:SAML:2.0:ac:classes:Password"},
        }
        made = self.server.create_authn_response(**(arguments | changes))
        return base64.b64encode(str(made).encode()).decode()

    def sign_in(
        self, browser: Client, name: str, change: Callable[[str], str] = lambda response: response, **changes: Any
    ) -> HttpResponse:
        """From the console's page through the provider's, and back to where the browser is sent last."""
        location = browser.post(BEGIN).json()["location"]
        assert location.startswith(f"{self.url}/sso?")
        return self.post(browser, change(self.response(location, name, **changes)))

    @staticmethod
    def post(browser: Client, response: str, **others: str) -> HttpResponse:
        """What the provider's page posts: without our cookies, as from another site."""
        sent = Client().post(ACS, {"SAMLResponse": response, **others})
        if not sent.headers["Location"].startswith("/sign-in/"):
            return sent
        browser.cookies.load(sent.cookies)
        return browser.get(sent.headers["Location"])


@contextmanager
def saml_provider_start(folder: Path, public_url: str) -> Iterator[SamlProvider]:
    """It listens on loopback until the block ends. ``public_url``: the server that it knows."""
    listener = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    # Another site than 127.0.0.1 to a browser, as a provider is.
    url = f"http://localhost:{listener.server_port}"
    provider = SamlProvider(url, public_url, _server(folder, url, public_url))
    listener.RequestHandlerClass = _handler(provider)
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


def _server(folder: Path, url: str, public_url: str) -> Server:
    authority = trustme.CA(key_type=trustme.KeyType.RSA)
    issued = authority.issue_cert("provider.example", key_type=trustme.KeyType.RSA)
    key, cert = folder / "key.pem", folder / "cert.pem"
    private = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    first = x509.load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())
    cert.write_bytes(first.public_bytes(serialization.Encoding.PEM))
    config = IdPConfig().load(
        {
            "entityid": f"{url}/metadata",
            "xmlsec_binary": sys.executable,  # asked for, and replaced below
            "key_file": str(key),
            "cert_file": str(cert),
            "service": {
                "idp": {
                    "endpoints": {"single_sign_on_service": [(f"{url}/sso", BINDING_HTTP_REDIRECT)]},
                    "policy": {"default": {"lifetime": {"minutes": 5}, "attribute_restrictions": None}},
                }
            },
            "metadata": {"inline": [_service_provider(public_url)]},
        }
    )
    server = Server(config=config)
    server.sec.crypto = Signer(str(cert))
    server.config.xmlsec_binary = None
    return server


def _service_provider(public_url: str) -> str:
    """Our metadata as a provider's administrator takes it: read from the server, elsewhere."""
    return (
        '<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" '
        f'entityID="{public_url}/sign-in/saml/metadata"><md:SPSSODescriptor '
        'protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol"><md:AssertionConsumerService '
        f'Binding="{BINDING_HTTP_POST}" Location="{public_url}{ACS}" index="1"/>'
        "</md:SPSSODescriptor></md:EntityDescriptor>"
    )


def _handler(provider: SamlProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """The metadata, a page that asks for a name, and the page that posts the response."""

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/metadata":
                self._answer("application/samlmetadata+xml", provider.metadata())
            elif name := parse_qs(parts.query).get("name"):
                action = f"{provider.sp_url}{ACS}"
                self._page(FORM.format(action=action, response=provider.response(self.path, name[0])))
            else:
                asked = html.escape(parse_qs(parts.query)["SAMLRequest"][0])
                self._page(f'<form><input type="hidden" name="SAMLRequest" value="{asked}"><input name="name"></form>')

        def _page(self, text: str) -> None:
            self._answer("text/html", text.encode())

        def _answer(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def decoded(response: str) -> str:
    return base64.b64decode(response).decode()


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def replaced(old: str, new: str) -> Callable[[str], str]:
    """A change on the way: each ``old`` (a regular expression) becomes ``new``."""

    def change(response: str) -> str:
        text, count = re.subn(old, new, decoded(response), flags=re.DOTALL)
        assert count, old
        return encoded(text)

    return change
