"""Sessions at two places of one server: on this machine, and on a real Slurm. The engines and
trainers are fakes.
"""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest
from e2e.loop_server import LoopServer, until
from e2e.playing import play

from console.object_store import client as object_store
from launching.slurm_cluster import slurm_cluster

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(500)]

PLACES = """
[lab]
kind = "cpus"
launcher = "slurm"
max_runtimes = 2
runtime_cpus = 1
runtime_memory_gib = 6
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, embedded_s3: str) -> Iterator[LoopServer]:
    host, store = socket.gethostname(), object_store.store_get()
    if socket.gethostbyname(host) != "127.0.0.1":
        pytest.skip(
            "this machine's name does not lead to its loopback, on which alone a test serves"
        )
    folder = tmp_path_factory.mktemp("places")
    (folder / "places.toml").write_text(PLACES)
    with slurm_cluster() as conf:
        server = LoopServer(folder)
        port = server.url.rpartition(":")[2]
        server.environment |= {
            "TINKERSCRIPT_PLACES": str(folder / "places.toml"), "SLURM_CONF": str(conf),
            "TINKERSCRIPT_RUNTIME_SERVER_URL": f"http://{host}:{port}",
            "S3_ENDPOINT_URL": embedded_s3, "S3_ACCESS_KEY": store.access_key, "S3_SECRET_KEY": store.secret_key,
        }  # fmt: skip
        try:
            server.start()
            yield server
        finally:
            server.close()


def jobs() -> list[str]:
    """The names of those that Slurm runs."""
    said = subprocess.run(
        ["squeue", "--noheader", "--format=%j"], capture_output=True, text=True, timeout=20
    )
    return said.stdout.split()


def counts(server: LoopServer) -> dict[str, tuple[str, int]]:
    """Launcher and running sessions of each place."""
    return {it["name"]: (it["launcher"], it["running"]) for it in server.get("/v1/places")["items"]}


def test_sessions_train_at_two_places_at_once_each_by_its_own_launcher(server: LoopServer) -> None:
    here, there = server.session(), server.session(place="cpus")
    try:
        assert there.config.place == "lab" and here.config.place == "here"
        assert counts(server) == {"here": ("process", 1), "lab": ("slurm", 1)}
        (job,) = jobs()
        assert job.startswith(there.id)
        for remote in (here, there):
            play(remote, "rain", 4)
            play(remote, "snow", 4)
        for remote in (here, there):
            until(lambda remote=remote: remote.accounting().trained == 8, "both train")
    finally:
        here.close()
        there.close()
    until(lambda: jobs() == [], "the job of the session that was closed has ended")
    assert counts(server) == {"here": ("process", 0), "lab": ("slurm", 0)}


def test_a_place_that_does_not_respond_holds_up_no_session_of_another(server: LoopServer) -> None:
    """The controller of the cluster is stopped: its commands wait, and say nothing."""
    there = server.session(place="lab")
    (controller,) = [it for it in psutil.process_iter(["cmdline"]) if is_controller(it)]
    controller.suspend()
    try:
        began = time.monotonic()
        here = server.session()
        took_s = time.monotonic() - began
        play(here, "hail", 4)
        play(here, "wind", 4)
        until(lambda: here.accounting().trained == 8, "the other place goes on")
        assert took_s < 30, took_s
        here.close()
        until(
            lambda: is_said_away(server, there.id),
            "its own session's record says why",
            timeout_s=60,
        )
    finally:
        controller.resume()
    there.close()
    until(lambda: jobs() == [], "the job of the session that was closed has ended")


def is_controller(process: psutil.Process) -> bool:
    """Of this cluster."""
    command = process.info["cmdline"] or []
    with suppress(psutil.NoSuchProcess):
        return "slurmctld" in command[0:1] and os.environ["SLURM_CONF"] in command
    return False


def is_said_away(server: LoopServer, session_id: str) -> bool:
    """In one event of its record."""
    said = [
        it["data"]
        for it in server.events(session_id, "event")
        if it["data"]["name"] == "launcher_away"
    ]
    return len(said) == 1 and said[0]["reason"].startswith("place lab: ")
