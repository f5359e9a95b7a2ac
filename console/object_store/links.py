"""Links: what clients are given to read or write one object.

Clients reach the server at one address. The embedded store listens on loopback, so its links are
signed paths of the server's own origin, which passes the bytes on (api/store_links.py). A store
that clients reach is linked to directly.

Runtimes are given the store's own URLs (client.py): they run beside it, or on its network.
"""

import time
from dataclasses import asdict, dataclass, replace
from ipaddress import ip_address
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.core.signing import BadSignature, Signer

from console.config.sign_up import is_loopback
from console.object_store import client

PREFIX = "/store/"
MAX_TOKEN_LENGTH = 16 << 10
INTERNAL_NAMES = (".svc", ".local", ".internal", ".lan")


class BadLink(Exception):
    """The path is no link of this server, or one that has ended."""


@dataclass(frozen=True)
class Link:
    """What the holder of a signed path may do, until ``until`` (Unix time in seconds).

    ``method`` is GET, or PUT of part ``part`` of the upload ``upload_id``, of at most
    ``most_bytes`` (0: no limit).
    """

    method: str
    key: str
    until: int
    save_as: str = ""
    upload_id: str = ""
    part: int = 0
    most_bytes: int = 0

    @property
    def name(self) -> str:
        """The name under which a client keeps the object."""
        return self.save_as or self.key.rpartition("/")[2]


def read_link(key: str, *, expires_s: int, save_as: str = "") -> str:
    """A URL at which a client reads an object, ranges too. Neither the store nor the database is
    asked.

    ``save_as`` is the name under which a browser keeps it, instead of the key's.
    """
    if is_served_here():
        return _sign(Link("GET", key, _until(expires_s), save_as=save_as))
    return client.read_url(key, expires_s=expires_s, save_as=save_as, store=_public_store())


def write_link(key: str, upload_id: str, part: int, *, expires_s: int, most_bytes: int) -> str:
    """A URL at which a client writes one part (from 1 on) by PUT.

    This server refuses more than ``most_bytes``. The URL of an outside store has no limit of size.
    """
    if is_served_here():
        return _sign(
            Link(
                "PUT", key, _until(expires_s), upload_id=upload_id, part=part, most_bytes=most_bytes
            )
        )
    return client.part_url(key, upload_id, part, expires_s=expires_s, store=_public_store())


def link_of(path: str) -> Link:
    """The link that a request's path is. Raises BadLink."""
    token, _, name = path.removeprefix(PREFIX).partition("/")
    try:
        if len(token) > MAX_TOKEN_LENGTH:
            raise BadSignature
        link = Link(**_signer().unsign_object(token))
    except (BadSignature, ValueError, TypeError):
        raise BadLink("This is no link of this server: it was changed, or its key was.") from None
    if name != link.name:
        raise BadLink("This is no link of this server: the name at its end was changed.")
    if link.until < time.time():
        raise BadLink("This link has expired.")
    return link


def is_served_here() -> bool:
    """Whether clients read and write objects through this server.

    So it is where only this machine reaches the store, and where the setting names this server.
    """
    public_url = settings.S3_PUBLIC_ENDPOINT_URL or settings.S3_ENDPOINT_URL
    if not public_url or public_url == settings.PUBLIC_URL:
        return True
    return not settings.S3_PUBLIC_ENDPOINT_URL and is_loopback(public_url)


def misfits_find() -> list[str]:
    """What of the addresses in the settings clients or runtimes probably cannot use, with what to
    change."""
    found = []
    others_come = not is_loopback(f"http://{settings.HOST}")
    if others_come and is_loopback(settings.PUBLIC_URL):
        found.append(
            f"The server listens on {settings.HOST}, and clients are given {settings.PUBLIC_URL}, "
            "which leads each of"
            " them to itself: set TINKERSCRIPT_PUBLIC_URL to the address at which clients reach "
            "this server."
        )
    given = settings.S3_PUBLIC_ENDPOINT_URL or settings.S3_ENDPOINT_URL
    if not is_served_here():
        said = (
            "S3_PUBLIC_ENDPOINT_URL to the store's address as clients reach it, or to "
            f"{settings.PUBLIC_URL}"
        )
        if _is_internal(given) and not _is_internal(settings.PUBLIC_URL):
            found.append(
                f"Clients of {settings.PUBLIC_URL} are given {given} for files, an address of an "
                "internal network:"
                f" set {said}, which has this server pass the bytes on."
            )
        elif given.startswith("http://") and settings.PUBLIC_URL.startswith("https://"):
            found.append(
                f"{settings.PUBLIC_URL} links to files at {given}, without TLS, which browsers "
                f"refuse: set {said},"
                " which has this server pass the bytes on."
            )
    if not settings.LAUNCHER.row.runs_here and is_loopback(settings.S3_ENDPOINT_URL):
        found.append(
            f"Runtimes of TINKERSCRIPT_LAUNCHER={settings.LAUNCHER.name} have a network of their "
            "own, where"
            f" {settings.S3_ENDPOINT_URL} is not the store: set S3_ENDPOINT_URL to its address as "
            "they reach it."
        )
    return found


def _is_internal(url: str) -> bool:
    """Whether the address is a loopback or private one, or a name of an internal network."""
    host = urlsplit(url).hostname or ""
    try:
        return not ip_address(host).is_global
    except ValueError:
        return is_loopback(url) or "." not in host or host.endswith(INTERNAL_NAMES)


def _sign(link: Link) -> str:
    said = {name: value for name, value in asdict(link).items() if value}
    return f"{settings.PUBLIC_URL}{PREFIX}{_signer().sign_object(said)}/{quote(link.name)}"


def _signer() -> Signer:
    """By the server's secret key, and to verify also by the one before a rotation."""
    return Signer(salt="store-link")


def _until(expires_s: int) -> int:
    return int(time.time()) + expires_s


def _public_store() -> client.Store:
    """The store as clients reach it: a presigned URL's signature covers the host."""
    store = client.store_get()
    return replace(store, endpoint_url=settings.S3_PUBLIC_ENDPOINT_URL or store.endpoint_url)
