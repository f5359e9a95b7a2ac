"""What keeps everyone else out of SeaweedFS's own ports: its security.toml, and the certificate that it names.

SeaweedFS authenticates S3 requests alone. Its roles (master, volume, filer, admin) obey any client that reaches
their ports, so each asks for a client certificate, on gRPC and on HTTP. There is one, which is its own authority: who
can read its key may speak to every role. JWT keys guard the bytes of objects a second time.

``python3 -m console.object_store.weed_security FOLDER`` writes both for a store that is not embedded (docker/store.sh).
"""

import ipaddress
import os
import secrets
import ssl
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from console.config.private_files import replace

CONFIG, CERTIFICATE, KEY = "security.toml", "tls_certificate.pem", "tls_key.pem"
GRPC_ROLES = ("master", "volume", "filer", "s3", "admin", "worker", "msg_broker", "msg_agent", "mq", "client")
HTTPS_ROLES = ("master", "volume", "filer", "admin", "client")
JWT_SECTIONS = ("signing", "signing.read", "filer_signing", "filer_signing.read")
# Only the store itself checks it, and a store may run for years: it is renewed at a start, long before it expires.
VALID = timedelta(days=20 * 365)
RENEW_BEFORE = timedelta(days=10 * 365)


def security_write(folder: Path, *, jwt_keys: dict[str, str]) -> None:
    """Write security.toml, and a certificate where there is none that will do. Raises OSError.

    ``folder`` is the one in which `weed` is started: it looks for the file there first. ``jwt_keys``: by JWT_SECTIONS.
    """
    if not _is_valid(folder):
        certificate, key = _certificate_make()
        replace(folder / KEY, key)
        replace(folder / CERTIFICATE, certificate)
    replace(folder / CONFIG, _config(jwt_keys))


def certificate_remove(folder: Path) -> None:
    """Have another one from the next start on."""
    for name in (KEY, CERTIFICATE):
        (folder / name).unlink(missing_ok=True)


def _is_valid(folder: Path) -> bool:
    """Whether there is a certificate that lasts, with the key that belongs to it."""
    try:
        certificate = x509.load_pem_x509_certificate((folder / CERTIFICATE).read_bytes())
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(folder / CERTIFICATE, folder / KEY)
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        return False
    return certificate.not_valid_after_utc - datetime.now(UTC) > RENEW_BEFORE


def _certificate_make() -> tuple[str, str]:
    """A certificate and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tinkerscript store")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks that are set back
        .not_valid_after(now + VALID)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .sign(key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM).decode(), private.decode()


def _config(jwt_keys: dict[str, str]) -> str:
    # Relative paths: `weed` is started in this folder, which may be moved.
    pair = f'cert = "{CERTIFICATE}"\nkey = "{KEY}"\n'
    sections = [f'[grpc]\nca = "{CERTIFICATE}"\n']
    sections += [f"[grpc.{role}]\n{pair}" for role in GRPC_ROLES]
    sections += [f'[https.{role}]\nca = "{CERTIFICATE}"\n{pair}' for role in HTTPS_ROLES]
    sections[-1] += "enabled = true\n"  # of https.client: the roles are spoken to in no other way
    sections += [f'[jwt.{section}]\nkey = "{jwt_keys[section]}"\n' for section in JWT_SECTIONS]
    return "\n".join(sections)


if __name__ == "__main__":
    os.umask(0o077)
    security_write(Path(sys.argv[1]), jwt_keys={section: secrets.token_hex(32) for section in JWT_SECTIONS})
