"""Whoever opens connections by the hundred to a whole web server gets a bounded share of it, and
others are served.
"""

import asyncio
import contextlib
import io
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import aiohttp
import psutil
import pytest
from benchmarks.serving import Served, served

from api.relay.limits import MAX_BYTES_PER_KEY
from console.live.consumer import MAX_PER_CREDENTIAL
from tinkerscript.processes.bounded_http import HEAD_S

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

HALF_OPEN, SOCKETS, BODIES, BODY_BYTES = 600, 500, 60, 15 << 20
# within which somebody else's request is answered, on a machine that does other things too
SERVED_S = 10.0


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A gateway that reads what comes and says nothing."""
    with contextlib.suppress(ConnectionError):
        while await reader.read(1 << 20):
            pass
    writer.close()


@pytest.fixture(scope="module")
def gateway_port() -> Iterator[int]:
    """Of a gateway that listens in a thread: the tests' own loops begin and end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(
        asyncio.start_server(silence, "127.0.0.1", 0), loop
    ).result(25)
    yield server.sockets[0].getsockname()[1]

    async def end() -> None:
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    asyncio.run_coroutine_threadsafe(end(), loop).result(25)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(25)
    loop.close()


@pytest.fixture(scope="module")
def server(gateway_port: int) -> Iterator[Served]:
    with served(f"127.0.0.1:{gateway_port}") as server:
        yield server


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        yield client


async def others_are_served(server: Served, client: aiohttp.ClientSession) -> None:
    """A request with a key, on a connection of its own."""
    began = time.monotonic()
    headers = {"Authorization": f"Bearer {server.api_key}", "Connection": "close"}
    async with client.get(f"http://{server.address}/v1/sessions", headers=headers) as answer:
        assert answer.status == 200, await answer.text()
    assert time.monotonic() - began < SERVED_S


async def test_600_half_open_connections_are_closed_within_the_deadline_of_a_head(
    server: Served, client: aiohttp.ClientSession
) -> None:
    host, port = server.address.split(":")

    async def half_open(number: int) -> float:
        reader, writer = await asyncio.open_connection(host, int(port))
        if number % 2:  # the others send nothing at all
            writer.write(b"GET /v1/sessions HTTP/1.1\r\nHost: x\r\nX-")
        began = time.monotonic()
        await reader.read()
        writer.close()
        return time.monotonic() - began

    attack = [asyncio.create_task(half_open(number)) for number in range(HALF_OPEN)]
    await asyncio.sleep(1)
    await others_are_served(server, client)
    lived_s = await asyncio.gather(*attack)
    assert max(lived_s) < HEAD_S + SERVED_S
    connections = psutil.Process(server.process.pid).net_connections()
    # not its own one to Redis
    taken = [other for other in connections if other.laddr.port == int(port)]
    assert [other for other in taken if other.status == "ESTABLISHED"] == []


async def test_of_500_websockets_by_one_key_no_more_than_the_bound_stay(
    server: Served, client: aiohttp.ClientSession
) -> None:
    headers = {"Authorization": f"Bearer {server.api_key}"}
    url = f"ws://{server.address}/ws/v1/sessions/{server.session_id}"

    async def watch() -> int:
        """The code with which it was closed; 0 while it stays."""
        socket = await client.ws_connect(url, headers=headers)
        message = await socket.receive(timeout=60)
        return socket.close_code or 0 if message.type is not aiohttp.WSMsgType.TEXT else 0

    ended = Counter(await asyncio.gather(*(watch() for _ in range(SOCKETS))))
    assert ended == {0: MAX_PER_CREDENTIAL, 4429: SOCKETS - MAX_PER_CREDENTIAL}
    await others_are_served(server, client)


async def test_60_bodies_of_15_mib_to_the_relay_by_one_key_take_a_bounded_share_of_memory(
    server: Served, client: aiohttp.ClientSession
) -> None:
    process, body = psutil.Process(server.process.pid), bytes(BODY_BYTES)
    before, most = process.memory_info().rss, 0
    url = f"http://{server.address}/openai/v1/chat/completions"
    headers = {"Authorization": f"Bearer {server.episode_key}"}

    async def call() -> int:
        async with client.post(url, data=io.BytesIO(body), headers=headers) as answer:
            await answer.read()
            return answer.status

    calls = {asyncio.create_task(call()) for _ in range(BODIES)}
    fit = MAX_BYTES_PER_KEY // BODY_BYTES
    deadline = time.monotonic() + 90
    while len([one for one in calls if one.done()]) < BODIES - fit and time.monotonic() < deadline:
        most = max(most, process.memory_info().rss)
        await asyncio.sleep(0.05)
    await others_are_served(server, client)
    most = max(most, process.memory_info().rss)
    refused = Counter(one.result() for one in calls if one.done() and not one.exception())
    broken = [one.exception() for one in calls if one.done() and one.exception()]
    for one in calls:
        one.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    print(
        f"{refused} refused, {len(broken)} cut, {fit} fit; {(most - before) >> 20} MiB more than {before >> 20} MiB"
    )
    # 408: a body of which nothing came for half a minute, since on a busy machine this client
    # stands still too.
    assert set(refused) <= {408, 429} and all(
        isinstance(one, aiohttp.ClientError) for one in broken
    )
    assert refused[429] and refused.total() + len(broken) == BODIES - fit, (
        "those that fit wait for the gateway"
    )
    assert BODY_BYTES < most - before < 3 * MAX_BYTES_PER_KEY
    await others_are_served(server, client)
