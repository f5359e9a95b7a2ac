"""What keeps everyone else out of SeaweedFS's own ports: its security.toml, and the certificate
that it names.

SeaweedFS authenticates S3 requests alone. Its roles (master, volume, filer, admin) obey any client
that reaches their ports, so each asks for a client certificate, on gRPC and on HTTP. There is one,
which is its own authority: who can read its key may speak to every role. JWT keys guard the bytes
of objects a second time.

``python3 -m console.object_store.weed_security FOLDER`` writes both for a store that is not
embedded (docker/store.sh).
"""

import ipaddress
import os
import secrets
import ssl
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509

from console.config.own_certificate import certificate_make
from console.config.private_files import replace

CONFIG, CERTIFICATE, KEY = "security.toml", "tls_certificate.pem", "tls_key.pem"
GRPC_ROLES = (
    "master",
    "volume",
    "filer",
    "s3",
    "admin",
    "worker",
    "msg_broker",
    "msg_agent",
    "mq",
    "client",
)
HTTPS_ROLES = ("master", "volume", "filer", "admin", "client")
JWT_SECTIONS = ("signing", "signing.read", "filer_signing", "filer_signing.read")
# A store may run for years: it is renewed at a start, long before it expires.
RENEW_BEFORE = timedelta(days=10 * 365)


def security_write(folder: Path, *, jwt_keys: dict[str, str]) -> None:
    """Write security.toml, and a certificate where there is none that will do. Raises OSError.

    ``folder`` is the one in which `weed` is started: it looks for the file there first.
    ``jwt_keys``: by JWT_SECTIONS.
    """
    if not _is_valid(folder):
        names = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        certificate, key = certificate_make("tinkerscript store", names=names)
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
    security_write(
        Path(sys.argv[1]), jwt_keys={section: secrets.token_hex(32) for section in JWT_SECTIONS}
    )
