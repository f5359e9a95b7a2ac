"""A real PgBouncer that gives each transaction another connection: migrations and long reads work
with the setting for it."""

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connections
from on_postgres import postgres, postgres_tools

from console.config.database import databases_read

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
TOOLS = postgres_tools()
ALIAS, START_S, WAIT_S = "pooled", 30.0, 30.0
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        PGBOUNCER is None or TOOLS is None, reason="Debian: apt-get install postgresql pgbouncer"
    ),
]


@contextmanager
def pgbouncer(folder: Path, database_url: str) -> Iterator[str]:
    """A pool of two connections to the database; its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = folder / "pgbouncer"
    home.mkdir()
    socket_folder = database_url.partition("@")[2].partition("/")[0].replace("%2F", "/")
    (home / "users").write_text('"app" ""\n')
    (home / "ini").write_text(
        f"[databases]\npostgres = host={socket_folder} user=app\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {home}/users\n"
        "pool_mode = transaction\ndefault_pool_size = 2\n"
    )
    as_nobody = []
    if os.getuid() == 0:
        for path in (home, *home.iterdir()):
            shutil.chown(path, "nobody")
        as_nobody = ["setpriv", "--reuid", "nobody", "--clear-groups"]
    command = [*as_nobody, str(PGBOUNCER), str(home / "ini")]
    with (
        (home / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as server,
    ):
        try:
            deadline = time.monotonic() + START_S
            while not _listens(port):
                assert server.poll() is None and time.monotonic() < deadline, (
                    home / "log"
                ).read_text()
                time.sleep(0.05)
            yield f"postgres://app@127.0.0.1:{port}/postgres"
        finally:
            server.terminate()
            server.wait(START_S)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def pool() -> Iterator[str]:
    assert TOOLS is not None
    # where nobody can read: pytest's own folder is not
    with TemporaryDirectory(prefix="tinkerscript-pool-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with postgres(TOOLS, folder) as database_url, pgbouncer(folder, database_url) as url:
            yield url


@pytest.fixture
def pooled(pool: str, django_db_blocker: Any) -> Iterator[None]:
    """The pool is the database ``ALIAS``."""
    databases = databases_read("sqlite://:memory:") | {
        ALIAS: databases_read(f"{pool}?pool_mode=transaction")["default"]
    }
    connections.settings[ALIAS] = connections.configure_settings(databases)[ALIAS]
    with django_db_blocker.unblock():
        yield
        connections[ALIAS].close()
        del connections.settings[ALIAS], connections[ALIAS]


class Holder:
    """A transaction of another thread, which holds one connection of the pool until ``end``."""

    def __init__(self) -> None:
        self.pid = 0
        self._begun, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold, daemon=True)
        self._thread.start()
        assert self._begun.wait(WAIT_S)

    def _hold(self) -> None:
        connection = connections[ALIAS]
        connection.set_autocommit(False)
        self.pid = backend(connection)
        self._begun.set()
        self._ended.wait(WAIT_S)
        connection.rollback()
        connection.close()

    def end(self) -> None:
        self._ended.set()
        self._thread.join(WAIT_S)


def backend(connection: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return cursor.fetchone()[0]


def test_a_long_read_goes_on_over_another_connection(pooled: None) -> None:
    """Without the setting it ends in psycopg's InvalidCursorName."""
    call_command("migrate", database=ALIAS, verbosity=0)
    types = ContentType.objects.using(ALIAS).order_by("id")
    whole = list(types.values_list("id", flat=True))
    begun_on = backend(connections[ALIAS])
    rows = types.values_list("id", flat=True).iterator(chunk_size=2)
    read = [next(rows)]
    holders = [Holder()]
    if holders[0].pid != begun_on:  # then the next has the reader's
        holders.append(Holder())
        holders.pop(0).end()
    assert holders[0].pid == begun_on
    try:
        assert read + list(rows) == whole and len(whole) > 20
    finally:
        for holder in holders:
            holder.end()
