"""The keys of a Kubernetes that lives as long as a test run."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


def key_write(path: Path) -> rsa.RSAPrivateKey:
    """A new private key, in PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    )
    return key


def certificate_write(path: Path, key_path: Path) -> None:
    """With which the API server shows itself to the kubelet: signed by itself, so that it is its
    own authority.
    """
    key, now = key_write(key_path), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "api")])
    until = now + timedelta(days=1)
    made = (
        x509.CertificateBuilder(
            name, name, key.public_key(), x509.random_serial_number(), now, until
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
