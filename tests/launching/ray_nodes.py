"""A Ray cluster of real nodes on this machine, each at a loopback address of its own, with a
token.
"""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from console.scheduling.processes import wait_until
from gpu_runtime.cluster import joining
from launching.daemons import daemon, ports_find

HEAD, OTHER = "127.0.0.2", "127.0.0.3"
# Not this environment, even where it has Ray for a runtime: that has no dashboard.
PYTHON = str(Path(__file__).resolve().parents[2] / ".venv-ray-dashboard" / "bin" / "python")
START_S, RUN_S, ANSWER_S = 120, 480, 30


@dataclass
class RayNodes:
    """``variables`` are a driver's, which runs on the head's node. ``others`` are the processes of
    the other nodes; ``node_add`` starts one more, at its address.
    """

    variables: dict[str, str]
    folder: Path
    others: list[psutil.Process]
    node_add: Callable[[str], None]

    def lose(self, how: int = signal.SIGKILL, node: int = 0) -> None:
        """One of the others, with all that runs on it, at once."""
        for process in self.of_other(node):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(how)

    def of_other(self, node: int = 0) -> list[psutil.Process]:
        """Its processes: Ray's own, actors and what those have started."""
        return [self.others[node], *self.others[node].children(recursive=True)]


class Program:
    """One of tests/support that runs on the head's node, and is given ``told`` by a file of its
    ``folder``, where it leaves what it has found.
    """

    def __init__(self, program: str, folder: Path, cpus: int = 1, **told: object) -> None:
        self.folder = folder
        (folder / "config.json").write_text(json.dumps({"own": HEAD} | told))
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TINKERSCRIPT_RUNTIME_CPUS": str(cpus),
        }
        with (folder / "log").open("wb") as log:
            command = [PYTHON, program, str(folder)]
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def met(self, within_s: float = RUN_S) -> None:
        """Return once it is where a node may be lost."""
        met = (self.folder / "met").exists
        assert wait_until(met, timeout_s=within_s, poll_s=0.05), self.log()

    def found(self, within_s: float = RUN_S) -> Any:
        """What it has found at its end."""
        try:
            assert self.process.wait(within_s) == 0, self.log()
        finally:
            self.process.kill()
        return json.loads((self.folder / "found.json").read_text())

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-4000:]


@contextmanager
def ray_nodes(
    token: str | None = None,
    dashboard: int = 0,
    others: Sequence[str] = (OTHER,),
    head_takes_work: bool = True,
) -> Iterator[RayNodes]:
    """All are there; after the block nothing of them is. ``token``: "" for none; ``dashboard`` is
    its port.
    """
    if not Path(PYTHON).exists():
        pytest.skip("Ray is not installed: tests/environments/build.py ray-dashboard")
    folder = Path(tempfile.mkdtemp(prefix="tinkerscript-test-ray-", dir="/tmp"))
    (port,) = ports_find(1)
    token = secrets.token_hex(32) if token is None else token
    variables = {
        "RAY_ADDRESS": f"{HEAD}:{port}",
        "RAY_AUTH_MODE": "token" if token else "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TINKERSCRIPT_RUNTIME_CPUS": "1",
    } | ({"RAY_AUTH_TOKEN": token} if token else {})
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        head = of_tests(joining.node_command(own=HEAD, port=port, folder=str(folder / "ray")))
        head += [] if head_takes_work else ["--num-cpus=0"]
        if dashboard:
            head = [word for word in head if not word.startswith("--include-dashboard")]
            head += [
                "--include-dashboard=true",
                "--dashboard-host=127.0.0.1",
                f"--dashboard-port={dashboard}",
            ]
        with ExitStack() as daemons:
            first = daemons.enter_context(daemon(head, log=folder / "head.log"))
            assert wait_until(lambda: _listens(port), timeout_s=START_S, poll_s=0.2), (
                folder / "head.log"
            ).read_text()
            others_started: list[psutil.Process] = []

            def node_add(own: str) -> None:
                command = of_tests(joining.node_command(own=own, address=f"{HEAD}:{port}"))
                log = folder / f"{own}.log"
                node = daemons.enter_context(daemon(command, log=log))
                others_started.append(psutil.Process(node.pid))
                # Nodes of one machine share a folder: two that start at once take one socket's name.
                started = lambda: "--block" in log.read_text(errors="replace")  # noqa: E731
                assert wait_until(started, timeout_s=START_S, poll_s=0.2), log.read_text()

            for own in others:
                node_add(own)
            try:
                yield RayNodes(variables, folder, others_started, node_add)
            finally:
                _end([psutil.Process(first.pid), *others_started])
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)


def of_tests(command: list[str]) -> list[str]:
    """The same with Ray of PYTHON."""
    return [PYTHON, *command[1:]]


def dashboard_lists(url: str, token: str, count: int) -> bool:
    """Whether the dashboard there answers, and has that many nodes."""
    headers = {"Authorization": f"Bearer {token}"}
    try:
        told = httpx.get(f"{url}/api/v0/nodes", headers=headers, timeout=ANSWER_S)
        return told.status_code == 200 and told.json()["data"]["result"]["total"] == count
    except httpx.HTTPError:
        return False


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HEAD, port), timeout=1).close()
    except OSError:
        return False
    return True


def _end(nodes: Sequence[psutil.Process]) -> None:
    for node in nodes:
        with suppress(psutil.NoSuchProcess):
            for process in [*node.children(recursive=True), node]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
