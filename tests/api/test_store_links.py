"""Links to objects, ``/store/...``: what clients read and write where they do not reach the store
itself.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator
from urllib.parse import unquote

import pytest
import pytest_asyncio
from aiohttp import web

from api import store_links
from api.gateway_client import client_close
from api.store_links import BUFFER_BYTES
from console.asgi import application
from console.object_store import client, links
from console.object_store.client import parts_written
from console.scheduling.launchers.options import LAUNCHERS, LauncherOptions
from console.scheduling.launchers.protocol import Resources
from support.asgi_calls import Call, FakeGateway

KEY = "sessions/ses_1/checkpoints/ckp_1/model one.safetensors"
BODY = bytes(range(256)) * 4096


@pytest_asyncio.fixture(autouse=True)
async def _client() -> AsyncIterator[None]:
    yield
    await client_close()


@pytest.fixture
def kept(embedded_s3: str) -> str:
    """The path of a link to an object."""
    client.put(KEY, BODY)
    return path_of(links.read_link(KEY, expires_s=60))


def path_of(link: str) -> str:
    origin = "http://127.0.0.1:8000"
    assert link.startswith(f"{origin}/store/"), "every client reaches the server's own origin"
    return unquote(link.removeprefix(origin))


def write_path(
    key: str = KEY, *, most_bytes: int = 1 << 30, expires_s: int = 60
) -> tuple[str, str]:
    upload_id = client.multipart_open(key)
    return path_of(
        links.write_link(key, upload_id, 1, expires_s=expires_s, most_bytes=most_bytes)
    ), upload_id


async def ask(
    method: str, path: str, *, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    return await Call(application, method, path, body=body, **headers).answer()


@pytest.mark.smoke
async def test_a_link_serves_the_object_whole_as_a_file_and_never_as_a_page(kept: str) -> None:
    status, headers, body = await ask("GET", kept)
    assert (status, hashlib.sha256(body).digest()) == (200, hashlib.sha256(BODY).digest())
    assert (
        headers["content-length"] == str(len(BODY))
        and headers["etag"]
        and headers["accept-ranges"] == "bytes"
    )
    assert headers["content-disposition"] == 'attachment; filename="model one.safetensors"'
    assert (
        headers["content-type"] == "application/octet-stream"
        and headers["x-content-type-options"] == "nosniff"
    )
    assert "sandbox" in headers["content-security-policy"] and headers["x-request-id"]
    named = path_of(links.read_link(KEY, expires_s=60, save_as="ses_1-part.parquet"))
    assert (await ask("GET", named))[1][
        "content-disposition"
    ] == 'attachment; filename="ses_1-part.parquet"'


@pytest.mark.smoke
async def test_head_ranges_and_conditions_are_the_stores(kept: str) -> None:
    status, headers, body = await ask("HEAD", kept)
    assert (status, headers["content-length"], body) == (200, str(len(BODY)), b"")
    etag = headers["etag"]
    for wanted, first, last in (
        ("bytes=5-9", 5, 9),
        ("bytes=1048570-", 1048570, 1048575),
        ("bytes=-3", 1048573, 1048575),
    ):
        status, headers, body = await ask("GET", kept, range=wanted)
        assert (status, body) == (206, BODY[first : last + 1])
        assert headers["content-range"] == f"bytes {first}-{last}/{len(BODY)}"
    assert (await ask("GET", kept, range="bytes=5-9", if_range=etag))[0] == 206
    assert (await ask("GET", kept, range="bytes=5-9", if_range='"other"'))[2] == BODY, (
        "another object: all of it"
    )
    assert (await ask("GET", kept, range=f"bytes={len(BODY)}-"))[0] == 416
    assert (await ask("GET", kept, if_none_match=etag))[0] == 304
    assert (await ask("GET", kept, if_match='"other"'))[0] == 412


@pytest.mark.smoke
@pytest.mark.parametrize("spoil", [
    lambda path: path[:-1],
    lambda path: path.rpartition("/")[0] + "/model.bin",
    lambda path: path.replace("/store/e", "/store/f", 1),
    lambda path: path.replace(":", ":A", 1),
    lambda path: "/store/" + path.partition(":")[2],
    lambda path: "/store/",
    lambda path: "/store/é:é/x",
])  # fmt: skip
async def test_a_link_that_was_changed_is_refused(kept: str, spoil) -> None:
    status, _, body = await ask("GET", spoil(kept))
    error = json.loads(body)["error"]
    assert (status, error["code"]) == (403, "forbidden") and "no link of this server" in error[
        "message"
    ]


async def test_a_link_of_another_server_is_refused_and_of_a_rotated_key_taken(
    kept: str, settings
) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another", []
    assert (await ask("GET", kept))[0] == 403
    mine = path_of(links.read_link(KEY, expires_s=60))
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "newer", ["another"]
    assert (await ask("GET", mine))[0] == 200


@pytest.mark.smoke
async def test_a_link_ends(kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(links.time, "time", lambda: now + 61)
    status, _, body = await ask("GET", kept)
    assert (status, json.loads(body)["error"]["message"]) == (403, "This link has expired.")


@pytest.mark.smoke
async def test_a_link_allows_one_thing(kept: str) -> None:
    for method in ("PUT", "POST", "DELETE", "OPTIONS"):
        status, headers, _ = await ask(method, kept, body=b"x", content_length="1")
        assert (status, headers["allow"]) == (405, "GET, HEAD")
    path, _ = write_path()
    assert [(await ask(method, path))[0] for method in ("GET", "HEAD", "DELETE")] == [405, 405, 405]
    assert client.get(KEY) == BODY


async def test_a_part_is_written_by_put(embedded_s3: str) -> None:
    key = "sessions/ses_1/uploads/upl_1/config.json"
    path, upload_id = write_path(key)
    status, headers, _ = await ask("PUT", path, body=BODY, content_length=str(len(BODY)))
    assert status == 200
    assert client.get(key) is None, "not before the upload is complete"
    assert list(parts_written(key, upload_id) or ()) == [(headers["etag"], len(BODY))]
    client.multipart_complete(key, upload_id, [headers["etag"]])
    assert client.get(key) == BODY
    status, _, body = await ask("PUT", path, body=BODY, content_length=str(len(BODY)))
    assert (status, json.loads(body)["error"]["code"]) == (404, "not_found"), "the upload has ended"
    path, _ = write_path("sessions/ses_1/uploads/upl_1/empty", most_bytes=10)
    assert (await ask("PUT", path, body=b"", content_length="0"))[0] == 200


async def test_a_put_that_is_too_large_or_has_no_length_is_refused_unread(
    memory_store: str,
) -> None:
    key = "sessions/ses_1/uploads/upl_2/config.json"
    path, upload_id = write_path(key, most_bytes=10)
    status, _, body = await ask("PUT", path, body=b"x" * 11, content_length="11")
    assert (
        status == 413
        and "config.json may have 10 bytes, and 11 were announced"
        in json.loads(body)["error"]["message"]
    )
    assert (await ask("PUT", path, body=b"x"))[0] == 411
    assert list(parts_written(key, upload_id) or ()) == []


async def test_a_client_that_goes_in_the_middle_of_a_put_leaves_no_part(embedded_s3: str) -> None:
    key = "sessions/ses_1/uploads/upl_3/config.json"
    path, upload_id = write_path(key)
    call = Call(application, "PUT", path, content_length=str(len(BODY)))
    first = await call.incoming.get()
    call.incoming.put_nowait(first | {"body": BODY[:1000], "more_body": True})
    call.disconnect()
    async with asyncio.timeout(25):
        await asyncio.wait({call.task})
    assert call.task.exception() is None
    assert list(parts_written(key, upload_id) or ()) == []


async def test_what_is_gone_is_404_and_a_store_that_is_away_503(kept: str, settings) -> None:
    client.delete([KEY])
    status, _, body = await ask("GET", kept)
    assert (status, json.loads(body)["error"]["code"]) == (404, "not_found")
    settings.S3_ENDPOINT_URL, settings.S3_ACCESS_KEY, settings.S3_SECRET_KEY = (
        "http://127.0.0.1:9",
        "a",
        "b",
    )
    status, headers, body = await ask("GET", kept)
    assert (status, headers["retry-after"], json.loads(body)["error"]["code"]) == (
        503,
        "1",
        "storage_unavailable",
    )


@pytest_asyncio.fixture
async def fake_store(settings) -> AsyncIterator[FakeGateway]:
    fake = FakeGateway()
    await fake.start()
    settings.S3_ENDPOINT_URL, settings.S3_ACCESS_KEY, settings.S3_SECRET_KEY = (
        f"http://{fake.address}",
        "a",
        "b",
    )
    yield fake
    await fake.stop()


async def test_a_client_that_does_not_read_makes_the_store_wait(fake_store: FakeGateway) -> None:
    """The store has 256 MiB; what it could send ahead of the client is what buffers hold."""
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"Content-Length": str(256 << 20)})
        await response.prepare(request)
        for _ in range(256):
            await response.write(bytes(1 << 20))
            sent += 1
        return response

    fake_store.answer = endless
    may_send, seen = asyncio.Event(), 0
    reached = asyncio.Event()

    async def send(message: dict) -> None:
        nonlocal seen
        if message["type"] == "http.response.body":
            seen += len(message["body"])
            reached.set()
            await may_send.wait()

    path = path_of(links.read_link(KEY, expires_s=60))
    call = Call(application, "GET", path)
    call.task.cancel()
    task = asyncio.create_task(application(call.scope, call.incoming.get, send))
    async with asyncio.timeout(25):
        await reached.wait()
        before = -1
        while before != sent:  # until the store is stuck
            before = sent
            await asyncio.sleep(0.05)
    assert seen <= 4 * BUFFER_BYTES and sent < 64
    call.disconnect()
    async with asyncio.timeout(25):
        await task  # and the store's connection is let go


async def test_an_answer_that_breaks_off_is_short_and_no_whole_one(fake_store: FakeGateway) -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"x" * 10)
        request.transport.close()
        return response

    fake_store.answer = broken
    call = Call(application, "GET", path_of(links.read_link(KEY, expires_s=60)))
    status, headers = await call.start()
    assert (status, headers["content-length"]) == (200, "1000")
    got = await call.message()
    assert got["body"] == b"x" * 10 and got["more_body"]
    async with asyncio.timeout(25):
        await asyncio.wait({call.task})
    assert call.outgoing.empty(), (
        "no last message: the web server closes the connection before the announced length"
    )


async def test_what_the_store_refuses_is_in_the_log_with_the_stores_words(
    fake_store: FakeGateway, caplog
) -> None:
    async def refused(request: web.Request) -> web.StreamResponse:
        return web.Response(status=403, text="<Code>InvalidAccessKeyId</Code>")

    fake_store.answer = refused
    status, _, body = await ask("GET", path_of(links.read_link(KEY, expires_s=60)))
    assert status == 503 and "the server's log has more" in json.loads(body)["error"]["hint"]
    assert (
        "403" in caplog.text
        and "InvalidAccessKeyId" in caplog.text
        and b"InvalidAccessKeyId" not in body
    )


async def test_one_session_leaves_others_room(
    fake_store: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_links, "MAX_TRANSFERS_PER_SESSION", 2)
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def waits(request: web.Request) -> web.StreamResponse:
        if len(fake_store.requests) == 2:
            begun.set()
        await goes_on.wait()
        return web.Response(body=b"x")

    fake_store.answer = waits
    path = path_of(links.read_link(KEY, expires_s=60))
    two = [Call(application, "GET", path) for _ in range(2)]
    async with asyncio.timeout(25):
        await begun.wait()
    assert (await ask("GET", path))[0] == 503
    other = Call(application, "GET", path_of(links.read_link("sessions/ses_2/x", expires_s=60)))
    goes_on.set()
    assert [(await call.answer())[0] for call in (*two, other)] == [200, 200, 200]
    assert (await ask("GET", path))[0] == 200, "what ended counts no more"


def test_an_outside_store_is_linked_to_where_clients_reach_it(settings) -> None:
    settings.S3_ENDPOINT_URL, settings.S3_ACCESS_KEY, settings.S3_SECRET_KEY = (
        "http://minio:9000",
        "a",
        "b",
    )
    assert links.read_link(KEY, expires_s=60).startswith("http://minio:9000/tinkerscript/")
    settings.S3_PUBLIC_ENDPOINT_URL = "https://s3.example.org"
    assert links.read_link(KEY, expires_s=60).startswith("https://s3.example.org/tinkerscript/")
    assert links.write_link(KEY, "u", 1, expires_s=60, most_bytes=1).startswith(
        "https://s3.example.org/tinkerscript/"
    )
    assert client.read_url(KEY, expires_s=60).startswith("http://minio:9000/"), (
        "as runtimes reach it"
    )
    settings.S3_PUBLIC_ENDPOINT_URL = settings.PUBLIC_URL
    assert path_of(links.read_link(KEY, expires_s=60))
    settings.S3_PUBLIC_ENDPOINT_URL, settings.S3_ENDPOINT_URL = "", "http://localhost:9000"
    assert path_of(links.read_link(KEY, expires_s=60)), (
        "others reach no address of this machine's loopback"
    )


@pytest.mark.parametrize(("changed", "says"), [
    ({}, ""),
    ({"PUBLIC_URL": "https://lab.example.org"}, ""),
    ({"PUBLIC_URL": "https://lab.example.org", "S3_ENDPOINT_URL": "http://127.0.0.1:9000"}, ""),
    ({"PUBLIC_URL": "https://lab.example.org", "S3_ENDPOINT_URL": "https://s3.example.org"}, ""),
    ({"S3_ENDPOINT_URL": "http://10.0.0.5:9000"}, ""),
    ({"PUBLIC_URL": "http://10.0.0.4:8000", "S3_ENDPOINT_URL": "http://10.0.0.5:9000"}, ""),
    ({"PUBLIC_URL": "https://lab.example.org", "S3_ENDPOINT_URL": "http://minio:9000"}, "S3_PUBLIC_ENDPOINT_URL"),
    ({"PUBLIC_URL": "https://lab.example.org", "S3_ENDPOINT_URL": "https://s3.ml.svc"}, "S3_PUBLIC_ENDPOINT_URL"),
    ({"PUBLIC_URL": "https://lab.example.org", "S3_ENDPOINT_URL": "http://10.0.0.5"}, "http://10.0.0.5 for files"),
    ({"PUBLIC_URL": "https://lab.example.org", "S3_ENDPOINT_URL": "http://s3.example.org"}, "without TLS"),
    ({"HOST": "0.0.0.0"}, "TINKERSCRIPT_PUBLIC_URL"),
    ({"HOST": "10.0.0.4", "PUBLIC_URL": "http://localhost:8000"}, "leads each of them to itself"),
])  # fmt: skip
def test_start_up_says_what_addresses_do_not_fit(
    settings, changed: dict[str, str], says: str
) -> None:
    for name, value in changed.items():
        setattr(settings, name, value)
    found = links.misfits_find()
    assert (says in found[0] and len(found) == 1) if says else found == []


@pytest.mark.parametrize("name", LAUNCHERS)
def test_start_up_says_where_runtimes_have_another_loopback_than_the_store(
    settings, name: str
) -> None:
    settings.LAUNCHER = LauncherOptions(name=name, resources=Resources())
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9000"
    named = [f"TINKERSCRIPT_LAUNCHER={name} have" in each for each in links.misfits_find()]
    assert named == ([] if name == "process" else [True])
