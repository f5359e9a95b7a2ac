"""The web server as it runs: a process of its own, over real sockets."""

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from django.conf import settings
from django.db import connection

START_S = 60.0
PROGRAM = str(Path(__file__).with_name("server_without_looks.py"))


def database_url() -> str:
    """The test database, of whichever kind the tests run on (tests/on_postgres.py)."""
    name, served = connection.settings_dict["NAME"], os.environ.get("TEST_DATABASE_URL")
    return f"{served.rpartition('/')[0]}/{name}" if served else f"sqlite:///{name}"


# ``console.asgi`` runs under each, where it is only woken; {fd} is the listening socket's number.
SERVERS = {
    "uvicorn": ["console.server.uvicorn", "--fd", "{fd}"],
    "daphne": ["daphne", "--fd", "{fd}", "--verbosity", "0", "console.asgi:application"],
}


@pytest.fixture(scope="session", params=SERVERS)
def asgi_server(request: pytest.FixtureRequest) -> str:
    """Which server a test runs under: each in turn, unless the test chooses."""
    return request.param


@pytest.fixture(scope="session")
def origin(asgi_server: str, django_db_setup: None) -> Iterator[str]:
    """The address of one server for all tests, which finds in the test database what each writes
    there.

    Its listening socket is made here, so none is guessed.
    """
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "DATABASE_URL": database_url(),
        "TINKERSCRIPT_SECRET_KEY": settings.SECRET_KEY,
        "PYTHONPATH": os.pathsep.join([".", "sdk"]),
    }
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [
            sys.executable,
            PROGRAM,
            *(word.format(fd=listener.fileno()) for word in SERVERS[asgi_server]),
        ]
        process = subprocess.Popen(
            command, env=environment, cwd=settings.BASE_DIR, pass_fds=[listener.fileno()]
        )
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            process.terminate()
            process.wait(60)


@pytest.fixture
async def http(origin: str, transactional_db: None) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of that server; connections wait in the socket's backlog until it is up."""
    timeout = aiohttp.ClientTimeout(total=START_S)
    async with aiohttp.ClientSession(origin, timeout=timeout) as session:
        async with session.get("/healthz") as answer:
            assert await answer.json() == {"status": "ok"}
        yield session
