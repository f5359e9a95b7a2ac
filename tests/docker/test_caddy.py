"""The proxy in front: Caddy takes its configuration, passes streams piece by piece, and names the
client.
"""

import asyncio
import io
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
import yaml
from aiohttp import web

from console.scheduling.processes import wait_until
from support.ports import free_port

DOCKER = Path(__file__).resolve().parents[2] / "docker"


def test_compose_gives_the_proxy_its_file_and_only_what_it_needs() -> None:
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
    caddy = services["caddy"]
    assert caddy["profiles"] == ["tls"] and caddy["cap_drop"] == ["ALL"]
    assert "./Caddyfile:/etc/caddy/Caddyfile:ro" in caddy["volumes"]
    assert set(caddy["networks"]) & set(services["web"]["networks"])
    assert set(caddy["networks"]) & set(services["store"]["networks"])
    for service, variable in (("web", "WEB_LISTEN"), ("store", "STORE_LISTEN")):
        assert services[service]["ports"][0].startswith("${" + variable)
    commented = (DOCKER / "example.env").read_text()
    for name in (
        "TINKERSCRIPT_DOMAIN",
        "TINKERSCRIPT_PUBLIC_URL",
        "S3_ENDPOINT_URL",
        "TINKERSCRIPT_TRUSTED_PROXIES",
    ):
        assert f"# {name}=" in commented


@pytest.fixture
async def upstream() -> AsyncIterator[int]:
    """A server that says what reached it, and streams two pieces, the second only after the first
    was read.
    """
    port, read = free_port(), asyncio.Event()

    async def shown(request: web.Request) -> web.Response:
        return web.json_response(
            {"for": request.headers["X-Forwarded-For"], "bytes": len(await request.read())}
        )

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        await read.wait()
        await response.write(b"data: 2\n\n")
        return response

    async def go_on(request: web.Request) -> web.Response:
        read.set()
        return web.Response()

    app = web.Application(client_max_size=1 << 30)
    app.add_routes(
        [web.post("/shown", shown), web.get("/stream", stream), web.get("/go-on", go_on)]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield port
    await runner.cleanup()


@pytest.fixture
def caddy(upstream: int, tmp_path: Path) -> Iterator[str]:
    """Caddy with the file of the deployment, on a free port of loopback and without TLS."""
    program = shutil.which("caddy")
    if program is None:
        pytest.skip("no caddy (apt: caddy)")
    port = free_port()
    environment = os.environ | {
        "TINKERSCRIPT_DOMAIN": f"http://127.0.0.1:{port}",
        "WEB_UPSTREAM": f"127.0.0.1:{upstream}",
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    # The second site's name is s3. and the first's: with a scheme in it that is no name.
    text = (
        (DOCKER / "Caddyfile")
        .read_text()
        .replace("s3.{$TINKERSCRIPT_DOMAIN}", "http://s3.localhost")
    )
    (tmp_path / "Caddyfile").write_text("{\n\tadmin off\n" + text.partition("{\n")[2])
    command = [program, "run", "--config", str(tmp_path / "Caddyfile"), "--adapter", "caddyfile"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert wait_until(
            lambda: process.poll() is not None or _listens(port), timeout_s=60, poll_s=0.1
        )
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_streams_pass_at_once_bodies_are_bounded_and_no_client_names_itself(
    caddy: str,
) -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as client:
        async with client.get(f"{caddy}/stream") as response:
            assert await response.content.readuntil(b"\n\n") == b"data: 1\n\n"
            (await client.get(f"{caddy}/go-on")).close()
            assert await response.content.readuntil(b"\n\n") == b"data: 2\n\n"
        forged = {"X-Forwarded-For": "203.0.113.9"}
        async with client.post(
            f"{caddy}/shown", data=io.BytesIO(b"x" * (16 << 20)), headers=forged
        ) as response:
            assert await response.json() == {"for": "127.0.0.1", "bytes": 16 << 20}
        async with client.post(f"{caddy}/shown", data=io.BytesIO(b"x" * (18 << 20))) as response:
            assert response.status in (413, 502), "17 MB is the most"
