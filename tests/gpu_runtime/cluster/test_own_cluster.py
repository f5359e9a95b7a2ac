"""A cluster that is started for one session, of two pods as processes of this machine: the runtime
in the first starts its head, the other joins by itself, and both ends have the session's keys.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

import psutil
import pytest

from console.config.own_certificate import certificate_make
from console.scheduling.processes import wait_until
from launching.ray_nodes import HEAD, OTHER, PYTHON
from support import node_ranks
from support.tiny_model import tiny_model_make

RUN_S, END_S = 240, 60
# The cluster's names of pods are no addresses; this is one that every machine resolves.
HEAD_NAME = str(int(ip_address(HEAD)))
pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not Path(PYTHON).exists(), reason="Ray is not installed"),
]


def keys() -> dict[str, str]:
    authority = "".join(certificate_make("tinkerscript session"))
    return {"RAY_AUTH_TOKEN": secrets.token_hex(32), "TINKERSCRIPT_RUNTIME_AUTHORITY": authority}


@contextmanager
def pod(
    folder: Path, index: int, command: list[str], own: dict[str, str]
) -> Iterator[subprocess.Popen]:
    """A process with what the launcher gives a pod of that ``index``."""
    environment = os.environ | own | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TINKERSCRIPT_RUNTIME_PODS": f"{HEAD_NAME},{OTHER}",
        "TINKERSCRIPT_RUNTIME_CPUS": "1",
        "JOB_COMPLETION_INDEX": str(index),
        "POD_IP": (HEAD, OTHER)[index],
        "RAY_AUTH_MODE": "token",
    }  # fmt: skip
    with (folder / f"pod-{index}.log").open("wb") as log:
        process = subprocess.Popen([PYTHON, *command], env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        started = (
            [process, *psutil.Process(process.pid).children(recursive=True)]
            if (process.poll() is None)
            else []
        )
        for each in started:
            each.kill()
        process.wait(END_S)


def run(
    folder: Path, first: dict[str, str], other: dict[str, str], **wanted: object
) -> tuple[dict, int | None]:
    """What ranks over both found, and how the other pod ended after the runtime."""
    tiny_model_make(folder / "model")
    config = {"trainer_ranks": 2, "nodes": 2}
    (folder / "config.json").write_text(json.dumps({"config": config, "meets": True} | wanted))
    program = [node_ranks.__file__, str(folder)]
    with (
        pod(folder, 0, program, first) as runtime,
        pod(folder, 1, ["-m", "gpu_runtime"], other) as joined,
    ):
        assert runtime.wait(RUN_S) == 0, logs(folder)
        found = json.loads((folder / "found.json").read_text())
        # one that is not admitted asks for longer
        wait_until(lambda: joined.poll() is not None, timeout_s=END_S if first == other else 0)
        return found, joined.poll()


def logs(folder: Path) -> str:
    return "\n".join(path.read_text(errors="replace")[-3000:] for path in folder.glob("pod-*.log"))


def test_two_pods_meet_and_the_other_ends_with_the_runtime(tmp_path: Path) -> None:
    own = keys()
    found, code = run(tmp_path, own, own)
    assert "fault" not in found and code == 0, (found, logs(tmp_path))


@pytest.mark.parametrize("lacks", ["RAY_AUTH_TOKEN", "TINKERSCRIPT_RUNTIME_AUTHORITY"])
def test_a_pod_without_the_sessions_keys_takes_no_part(tmp_path: Path, lacks: str) -> None:
    own = keys()
    stranger = own | {lacks: keys()[lacks]}
    found, code = run(tmp_path, own, stranger, join_s=20)
    assert found["fault"] == "TrainerFailed" and f"this one has 1: {HEAD}" in found["says"]
    assert code != 0


def test_a_notice_in_the_other_pod_reaches_the_runtime_and_the_node_lives_on(
    tmp_path: Path,
) -> None:
    own = keys()
    tiny_model_make(tmp_path / "model")
    told = {"config": {"trainer_ranks": 2, "nodes": 2}, "meets": True, "until_noticed": True}
    (tmp_path / "config.json").write_text(json.dumps(told))
    with (
        pod(tmp_path, 0, [node_ranks.__file__, str(tmp_path)], own) as runtime,
        pod(tmp_path, 1, ["-m", "gpu_runtime"], own) as joined,
    ):
        met = tmp_path / "met"
        assert wait_until(met.exists, timeout_s=RUN_S, poll_s=0.2), logs(tmp_path)
        joined.send_signal(signal.SIGTERM)
        began = time.monotonic()
        assert runtime.wait(RUN_S) == 0 and time.monotonic() - began < END_S, logs(tmp_path)
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["notices"] == 1 and "fault" not in found, (found, logs(tmp_path))
