"""Encryption between the nodes of a cluster that is started for one session: each node has a
certificate of its own, signed by an authority that this session's processes alone have (Ray's
"TLS authentication": RAY_USE_TLS).
"""

import datetime
import ipaddress
import os
from pathlib import Path
from typing import Any

from gpu_runtime.processes.network import own_addresses

AUTHORITY = "TINKERSCRIPT_RUNTIME_AUTHORITY"  # PEM of a certificate and its key
KEY_BEGINS = "-----BEGIN PRIVATE KEY"
LIFE = datetime.timedelta(days=3650)


def authority_make() -> str:
    """A new one."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tinkerscript session")])
    made = _signed(name, name, key.public_key(), key, x509.BasicConstraints(ca=True, path_length=0))
    return made + _pem(key)


def tls_begin(authority: str, own: str, folder: Path) -> None:
    """Let this process, and those that it starts, speak TLS alone, as the node with the address
    ``own``. ``folder`` is this user's alone.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509.oid import NameOID

    begins = authority.index(KEY_BEGINS)
    signed_by = x509.load_pem_x509_certificate(authority[:begins].encode())
    signer = load_pem_private_key(authority[begins:].encode(), password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey), "as authority_make makes it"
    key = ec.generate_private_key(ec.SECP256R1())
    # Ray puts another of the machine's addresses in the place of 127.0.0.1.
    addresses = sorted({own, "127.0.0.1", *own_addresses()})
    names = x509.SubjectAlternativeName(
        [x509.DNSName("localhost")]
        + [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    )
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, own)])
    made = _signed(name, signed_by.subject, key.public_key(), signer, names)
    for file, text in (("ca.crt", authority[:begins]), ("node.crt", made), ("node.key", _pem(key))):
        descriptor = os.open(folder / file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as written:
            written.write(text)
    os.environ.update(
        RAY_USE_TLS="1",
        RAY_TLS_CA_CERT=str(folder / "ca.crt"),
        RAY_TLS_SERVER_CERT=str(folder / "node.crt"),
        RAY_TLS_SERVER_KEY=str(folder / "node.key"),
    )


def _signed(name: Any, issuer: Any, public: Any, signer: Any, extension: Any) -> str:
    """The certificate of ``public``, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding

    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks of nodes differ
        .not_valid_after(now + LIFE)
        .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
    )
    return str(builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM).decode())


def _pem(key: Any) -> str:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    made = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return str(made.decode())
