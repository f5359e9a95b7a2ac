"""A container's process is replaced when it was stopped, and ends with the container."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from console.management.commands.supervise import PROCESSES
from console.scheduling.processes import wait_until
from support.up_server import Server

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 120


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[tuple[Server, subprocess.Popen[bytes]]]:
    server = Server(tmp_path)
    with (
        server.log,
        server.manage("supervise", "web", stdout=server.log, stderr=server.log) as process,
    ):
        try:
            yield server, process
        finally:
            process.kill()


def child_of(process: subprocess.Popen[bytes]) -> int | None:
    children = psutil.Process(process.pid).children()
    return children[0].pid if children else None


def eventually(holds: Callable[[], bool]) -> None:
    assert wait_until(holds, timeout_s=WAIT_S)


@pytest.mark.system
def test_a_stopped_web_server_is_replaced_and_the_new_one_ends_in_order(supervised) -> None:
    server, process = supervised
    eventually(server.answers)
    stopped = child_of(process)
    psutil.Process(stopped).suspend()
    eventually(lambda: child_of(process) not in (None, stopped) and server.answers())
    last = child_of(process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(WAIT_S) == 0
    assert not psutil.pid_exists(last) and not psutil.pid_exists(stopped)


def test_every_server_of_the_deployments_is_looked_at() -> None:
    """By supervise, or, where it has a port and Kubernetes, by a probe that restarts it."""
    services = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"]
    for name in PROCESSES:
        assert services[name]["command"] == ["python3", "manage.py", "supervise", name]
        path = ROOT / "docker" / "kubernetes" / f"{name}.yaml"
        (deployment,) = (
            each for each in yaml.safe_load_all(path.read_text()) if each["kind"] == "Deployment"
        )
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert "livenessProbe" in container or container["command"][-2:] == ["supervise", name]
