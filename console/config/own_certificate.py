"""A certificate that is its own authority: both ends of a connection have it, and take no other."""

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Nobody else checks it: it lasts longer than what it is for.
VALID = timedelta(days=20 * 365)


def certificate_make(
    owner: str, *, names: x509.SubjectAlternativeName | None = None
) -> tuple[str, str]:
    """A new certificate and its key, as PEM. ``names`` are those by which a server is asked for,
    where that is checked.

    Who can read the key may be either end.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, owner)])
    now = datetime.now(UTC)
    usages = x509.ExtendedKeyUsage(
        [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks that are set back
        .not_valid_after(now + VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usages, critical=False)
    )
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM).decode(), private.decode()
