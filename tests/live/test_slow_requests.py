"""A connection that sends nothing, or too slowly, is closed; one that is served is left alone."""

import asyncio
import contextlib
import resource
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator

import pytest
import uvicorn
from starlette.applications import Starlette

from console.server.uvicorn import BoundedWebSocket, config_make
from gpu_runtime.gateway.app import serve
from support.waiting import eventually
from tinkerscript.processes.bounded_http import BoundedHttp

TCP_ESTABLISHED = 1  # tcp(7)
LARGE = 16 << 20  # more than the system keeps for a connection
GET_LARGE = b"GET /large HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
HEAD_OF_LARGE = b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % LARGE
HEAD = b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n"

HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


GRACE_S = 2.0  # a process that gets no processor for less than this is not late


class Impatient(BoundedHttp):
    """The same with deadlines of a test."""

    head_s, body_check_s, body_grace_s = GRACE_S, 0.05, GRACE_S
    read_check_s, read_grace_s = 0.05, GRACE_S


class ImpatientSocket(BoundedWebSocket):
    """The same with deadlines of a test."""

    read_check_s, read_grace_s = 0.05, GRACE_S


async def watch(scope, receive, send):
    """Sends more than the system keeps, and ends with its client."""
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send", "bytes": bytes(LARGE)})
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def echo(scope, receive, send):
    if scope["type"] == "websocket":
        await watch(scope, receive, send)
        return
    if scope["path"] == "/large":
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-length", b"%d" % LARGE)],
            }
        )
        await send({"type": "http.response.body", "body": bytes(LARGE)})
        return
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    else:  # the client is gone
        return
    # longer than any deadline for the request: an answer may take its time
    await asyncio.sleep(1.1 * GRACE_S)
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-length", b"%d" % len(body))],
        }
    )
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
async def server() -> AsyncIterator[uvicorn.Server]:
    """It serves ``echo``."""
    config = uvicorn.Config(
        echo,
        http=Impatient,
        ws=ImpatientSocket,
        lifespan="off",
        log_config=None,
        host="127.0.0.1",
        port=0,
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign]  # the test runner keeps its own
    task = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    yield server
    server.should_exit = True
    await task


@pytest.fixture
def port(server: uvicorn.Server) -> int:
    """Where it listens."""
    return server.servers[0].sockets[0].getsockname()[1]


async def talk(port: int, *pieces: bytes) -> bytes:
    """All that the server answers to ``pieces`` until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    try:
        return await asyncio.wait_for(reader.read(), 25)
    finally:
        writer.close()


@pytest.mark.parametrize(
    "pieces",
    [
        (),
        (b"POST / HT",),
        (HEAD,),
        (HEAD + b"\r\n",),
        (HEAD + b"\r\nab",),
        (HEAD_OF_LARGE, bytes(LARGE // 2)),
    ],
    ids=[
        "nothing",
        "half a line",
        "half a head",
        "no body",
        "half a body",
        "half a large body, which came at once",
    ],
)
async def test_a_request_that_does_not_come_is_refused_and_its_connection_closed(
    port: int, pieces
) -> None:
    assert (await talk(port, *pieces)).startswith(b"HTTP/1.1 408 ")


async def test_an_answer_that_takes_longer_than_the_deadlines_is_waited_for(port: int) -> None:
    answer = await talk(port, HEAD + b"connection: close\r\n\r\nabcde")
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"abcde")


async def test_a_second_request_has_its_own_deadline(port: int) -> None:
    answer = await talk(port, HEAD + b"\r\nabcde", HEAD)
    assert answer.startswith(b"HTTP/1.1 200 ") and b"HTTP/1.1 408 " in answer


@pytest.mark.parametrize("reads", [0, 8 << 20], ids=["nothing", "a part"])
async def test_a_client_that_does_not_read_its_response_loses_its_connection(
    port: int, reads: int
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(GET_LARGE)
    if reads:
        await asyncio.wait_for(reader.readexactly(reads), 25)
    writer.transport.pause_reading()
    await asyncio.wait_for(closed_by_peer(writer), 25)
    writer.close()


@pytest.mark.parametrize("says", [b"", b"\x88\x80\0\0\0\0"], ids=["nothing", "that it goes"])
async def test_a_watcher_that_does_not_read_loses_its_connection_and_the_application_learns_it(
    server: uvicorn.Server, port: int, says: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HANDSHAKE)
    assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 25)).startswith(b"HTTP/1.1 101 ")
    writer.transport.pause_reading()
    writer.write(says)
    await asyncio.wait_for(closed_by_peer(writer), 25)
    writer.close()
    await eventually(lambda: not server.server_state.tasks)


async def closed_by_peer(writer: asyncio.StreamWriter) -> None:
    """It is reset, so that nothing has to be read first."""
    connection = writer.get_extra_info("socket")
    while connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == TCP_ESTABLISHED:
        await asyncio.sleep(0.01)


async def test_a_client_that_reads_has_the_whole_response(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(GET_LARGE)
    received, began = 0, time.monotonic()
    while piece := await asyncio.wait_for(reader.read(1 << 20), 25):
        received += len(piece)
        await asyncio.sleep(0.03)
    assert received > LARGE
    assert time.monotonic() - began > GRACE_S
    writer.close()


@pytest.mark.parametrize("lease", [False, True], ids=["a web process", "the lease process"])
def test_what_people_and_runtimes_reach_has_these_bounds(lease: bool) -> None:
    config = config_make(lease=lease)
    assert (config.http, config.ws) == (BoundedHttp, BoundedWebSocket)
    assert config.timeout_keep_alive > 120, (
        "a proxy in front must be the one that closes an idle connection"
    )


async def test_a_gateway_has_the_bounds_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedHttp, "head_s", GRACE_S)
    async with serve(Starlette()) as address:
        assert (await talk(int(address.rpartition(":")[2]), HEAD)).startswith(b"HTTP/1.1 408 ")


@pytest.mark.system
def test_the_server_may_open_as_many_files_as_the_system_allows() -> None:
    program = "from console.server.uvicorn import files_raise; import resource; files_raise(); "
    program += "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    lowered = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, most))  # noqa: E731
    done = subprocess.run(
        [sys.executable, "-c", program],
        preexec_fn=lowered,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == most
