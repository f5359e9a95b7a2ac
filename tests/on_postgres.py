"""The control plane on PostgreSQL, with Redis where it is there: ``python tests/on_postgres.py
[pytest arguments]``.

A private PostgreSQL and a private Redis in a throw-away folder, on sockets and a loopback port of
their own. Without PostgreSQL on this machine it says so and ends well: the same tests have run on
SQLite.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ["tests/console", "tests/api", "tests/live"]
# Each with a database of its own in both (tests/settings.py); "-n 0" among the arguments: none.
WORKERS = ["-n", "2", "--dist", "loadfile"]
START_S, END_S = 30.0, 30.0


def main(arguments: Sequence[str]) -> int:
    tools = postgres_tools()
    if tools is None:
        print("skipped: PostgreSQL is not on this machine (Debian: apt-get install postgresql)")
        return 0
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="tinkerscript-postgres-"))
        )
        folder.chmod(0o755)
        environment = os.environ | {
            "TEST_DATABASE_URL": stack.enter_context(postgres(tools, folder))
        }
        if shutil.which("redis-server"):
            environment["TEST_REDIS_URL"] = stack.enter_context(redis(folder))
        else:
            print(
                "Redis is not on this machine (Debian: apt-get install redis-server): channels stay in memory"
            )
        paths = (
            [] if any(Path(argument.split("::")[0]).exists() for argument in arguments) else TESTS
        )
        command = [sys.executable, "-m", "pytest", "-m", "not engine", *WORKERS, *arguments, *paths]
        return subprocess.run(command, cwd=ROOT, env=environment).returncode


def postgres_tools() -> Path | None:
    """The folder of PostgreSQL's programs. Debian keeps them off the PATH."""
    found = shutil.which("pg_ctl") or max(
        map(str, Path("/usr/lib/postgresql").glob("*/bin/pg_ctl")), default=None
    )
    return Path(found).resolve().parent if found else None


@contextmanager
def postgres(tools: Path, folder: Path, more: str = "") -> Iterator[str]:
    """A server that trusts who reaches its socket, with ``more`` options; its URL. Root runs it as
    ``nobody``.
    """
    home = folder / "postgres"
    home.mkdir()
    user = []
    if os.getuid() == 0:
        shutil.chown(home, "nobody")
        user = ["setpriv", "--reuid", "nobody", "--clear-groups", "--inh-caps=-all"]
    data, log = home / "data", home / "log"
    _run(
        [*user, tools / "initdb", "-D", data, "-U", "app", "-A", "trust", "--no-sync", "-E", "UTF8"]
    )
    # Nothing here outlives the tests: no fsync. No TCP: the socket's folder is the address.
    options = f"-c listen_addresses= -k {home} -c fsync=off -c full_page_writes=off -c max_connections=200 {more}"
    control = [*user, tools / "pg_ctl", "-D", data, "-w", "-t", START_S]
    _run([*control, "-l", log, "-o", options, "start"])
    try:
        yield f"postgres://app@{str(home).replace('/', '%2F')}/postgres"
    finally:
        _run([*control, "-m", "immediate", "stop"])


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """A server on a loopback port; its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        "redis-server",
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        str(folder),
    ]
    with (
        (folder / "redis.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as server,
    ):
        deadline = time.monotonic() + START_S
        while socket.socket().connect_ex(("127.0.0.1", port)) != 0:
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(
                    f"Redis does not start: {(folder / 'redis.log').read_text()[-2000:]}"
                )
            time.sleep(0.05)
        try:
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait(END_S)


def _run(command: Sequence[object]) -> None:
    done = subprocess.run(
        [str(part) for part in command], stdout=subprocess.DEVNULL, timeout=2 * START_S
    )
    if done.returncode:
        raise SystemExit(f"{command[-1]} of PostgreSQL failed")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
