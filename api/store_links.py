"""Objects of the store by signed path, ``/store/...``: for clients that do not reach the store
itself.

It verifies the path's signature (console/object_store/links.py), asks no database, and has bytes
pass as they come: at most twice BUFFER_BYTES of an object are in memory, and a client that reads or
writes slowly makes the store wait.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
from django.utils.http import content_disposition_header
from yarl import URL

from api.gateway_client import CONNECT_TIMEOUT_S, CONNECTION_ERRORS, client
from api.relay.proxy import ClientGone, client_gone, first_of
from console.object_store import client as object_store
from console.object_store.links import BadLink, Link, link_of
from console.server.request_limits import Receive, Send, error_send, request_id_of
from console.server.tally import Tally
from tinkerscript.wire.errors import ErrorCode, ErrorDetail

BUFFER_BYTES = 512 << 10
STORE_URL_S = 300  # of the URL that the store gets from here; it looks at the beginning alone
STORE_SILENT_S = 60.0
LOGGED_BYTES = 500  # of an error that the store returns
# In this process. A session may have a quarter, so that no one client keeps the others out.
MAX_TRANSFERS, MAX_TRANSFERS_PER_SESSION = 512, 128
METHODS = {"GET": ("GET", "HEAD"), "PUT": ("PUT",)}  # by what the link allows
CONDITIONS = ("range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since")
PASSED = ("content-length", "content-range", "accept-ranges", "etag", "last-modified")
# Served from the console's own origin: whatever an object holds, a browser must keep it and never
# show it as a page.
ALWAYS = [
    (b"content-type", b"application/octet-stream"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cache-control", b"private, no-store"),
    (b"referrer-policy", b"no-referrer"),
]
TIMEOUT = aiohttp.ClientTimeout(
    total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=STORE_SILENT_S
)
logger = logging.getLogger(__name__)


class Refusal(Exception):
    """A response in place of the store's."""

    def __init__(
        self, status: int, code: ErrorCode, message: str, hint: str, **headers: str
    ) -> None:
        super().__init__(message)
        self.status, self.detail = status, ErrorDetail(code=code, message=message, hint=hint)
        self.headers = [
            (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
        ]


transfers = Tally()  # under way, by session


@contextmanager
def transfer_hold(link: Link) -> Iterator[None]:
    """One transfer from its beginning to its end. Raises Refusal when there are too many."""
    name = "/".join(link.key.split("/")[:2])  # sessions/ID
    of_session, of_all = transfers.count(name, 1)
    try:
        if of_all > MAX_TRANSFERS or of_session > MAX_TRANSFERS_PER_SESSION:
            raise _unavailable(
                "Too many objects are being read or written.", "Wait for some of them to end."
            )
        yield
    finally:
        transfers.count(name, -1)


async def store_links(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Serve one request."""
    started = False

    async def send_seen(message: dict[str, Any]) -> None:
        nonlocal started
        started = True
        await send(message)

    try:
        link = link_of(scope["path"])
        if scope["method"] not in METHODS[link.method]:
            allowed = ", ".join(METHODS[link.method])
            hint = f"It takes {allowed}."
            raise Refusal(
                405,
                ErrorCode.METHOD_NOT_ALLOWED,
                "The link is not for this method.",
                hint,
                allow=allowed,
            )
        with transfer_hold(link):
            await (_write if link.method == "PUT" else _read)(link, scope, receive, send_seen)
    except BadLink as bad:
        detail = ErrorDetail(
            code=ErrorCode.FORBIDDEN, message=str(bad), hint="Ask for the file's link again."
        )
        await error_send(send, 403, detail, request_id_of(scope))
    except Refusal as refusal:
        await error_send(
            send, refusal.status, refusal.detail, request_id_of(scope), *refusal.headers
        )
    except ClientGone:
        pass
    except CONNECTION_ERRORS as error:
        if isinstance(error.__cause__, ClientGone):
            return
        logger.warning("the store's connection was lost: %r", error)
        # else the response stays short of its content-length, which every client notices
        if not started:
            lost = _unavailable("The object store does not answer.", "Try again in a moment.")
            await error_send(send, lost.status, lost.detail, request_id_of(scope), *lost.headers)


async def _read(link: Link, scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """To the end of the object or of the client's connection, whichever comes first."""
    await first_of(_read_through(link, scope, send), client_gone(receive))


async def _read_through(link: Link, scope: dict[str, Any], send: Send) -> None:
    await _client_make()
    url = object_store.read_url(link.key, expires_s=STORE_URL_S, method=scope["method"])
    wanted = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
    headers = {name: wanted[name] for name in CONDITIONS if name in wanted}
    if "range" in headers and "if-range" in wanted and await _is_other(wanted["if-range"], link):
        del headers["range"]
    async with client().request(
        scope["method"],
        URL(url, encoded=True),
        headers=headers,
        allow_redirects=False,
        timeout=TIMEOUT,
        read_bufsize=BUFFER_BYTES,
    ) as response:
        if response.status not in (200, 206, 304, 412, 416):
            raise await _refusal_of(response, "The object is not there any more.")
        is_body = response.status in (200, 206) and scope["method"] == "GET"
        await send(
            {
                "type": "http.response.start",
                "status": response.status,
                "headers": _headers(link, response),
            }
        )
        if is_body:
            async for chunk, _ in response.content.iter_chunks():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _is_other(if_range: str, link: Link) -> bool:
    """Whether the object is not the one that the client has a part of. SeaweedFS takes no notice of
    If-Range."""
    url = object_store.read_url(link.key, expires_s=STORE_URL_S, method="HEAD")
    async with client().head(
        URL(url, encoded=True), allow_redirects=False, timeout=TIMEOUT
    ) as response:
        return if_range not in (response.headers.get("ETag"), response.headers.get("Last-Modified"))


async def _write(link: Link, scope: dict[str, Any], receive: Receive, send: Send) -> None:
    size_bytes = _content_length(dict(scope["headers"]))
    if link.most_bytes and size_bytes > link.most_bytes:
        limit = f"{link.name} may have {link.most_bytes} bytes, and {size_bytes} were announced."
        raise Refusal(413, ErrorCode.INVALID_REQUEST, limit, "Send the file that the link is for.")
    await _client_make()
    url = object_store.part_url(
        link.key, link.upload_id, link.part, expires_s=STORE_URL_S, size_bytes=size_bytes
    )
    async with client().put(
        URL(url, encoded=True),
        data=_body(receive) if size_bytes else b"",
        allow_redirects=False,
        timeout=TIMEOUT,
        headers={"Content-Length": str(size_bytes)},
    ) as response:
        if response.status != 200:
            raise await _refusal_of(
                response, "The upload has ended: it was finished, removed, or has expired."
            )
        headers = [(b"etag", response.headers["ETag"].encode()), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _client_make() -> None:
    """The store's client, whose first making takes a third of a second, is made in a thread."""
    if not object_store.client_of.cache_info().currsize:
        await asyncio.to_thread(object_store.client_get)


async def _body(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        if body := message.get("body", b""):
            yield body
        if not message.get("more_body", False):
            return


def _content_length(headers: dict[bytes, bytes]) -> int:
    given = headers.get(b"content-length", b"")
    if not given.isdigit():
        raise Refusal(
            411,
            ErrorCode.INVALID_REQUEST,
            "The request has no Content-Length.",
            "Send the file's size with it.",
        )
    return int(given)


def _headers(link: Link, response: aiohttp.ClientResponse) -> list[tuple[bytes, bytes]]:
    passed = [
        (name.encode(), response.headers[name].encode())
        for name in PASSED
        if name in response.headers
    ]
    if response.status not in (200, 206):
        passed = [(name, value) for name, value in passed if name != b"content-length"] + [
            (b"content-length", b"0")
        ]
    disposition = content_disposition_header(True, link.name) or "attachment"
    return [*passed, *ALWAYS, (b"content-disposition", disposition.encode())]


async def _refusal_of(response: aiohttp.ClientResponse, gone: str) -> Refusal:
    if response.status == 404:
        return Refusal(404, ErrorCode.NOT_FOUND, gone, "Ask the server for what there is now.")
    body = await response.content.read(LOGGED_BYTES)
    logger.warning(
        "the object store answered %d: %s", response.status, body.decode(errors="replace")
    )
    hint = "Try again in a moment; the server's log has more."
    return _unavailable(f"The object store answered {response.status}.", hint)


def _unavailable(message: str, hint: str) -> Refusal:
    return Refusal(503, ErrorCode.STORAGE_UNAVAILABLE, message, hint, retry_after="1")
