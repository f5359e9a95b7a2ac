"""One session whose engine is over two of three nodes of a real Kubernetes, every part real; one of
them is lost.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from e2e.loop_server import until
from e2e.test_engine_nodes import AGAIN_S, LARGE, NODE_GIB, OPTIONS, STEP_S, is_part, play
from e2e.test_nodes import GRPO_N, LOST_S, TASKS, Served, ready_again, served_on_cluster

from support.tiny_model import tiny_model_make
from tinkerscript import TinkerScript

pytestmark = [pytest.mark.engine, pytest.mark.nightly, pytest.mark.timeout(1500)]

# In the words of whoever notices it first: the pod's end, or that nothing comes from it any more.
LOST = r"node \S+ is (lost: its pod went away|not reached: no sign of life)"


@pytest.fixture
def server(tmp_path: Path, embedded_s3: str) -> Iterator[Served]:
    models = tmp_path / "data" / "models"
    tiny_model_make(models / "tiny")
    large = tiny_model_make(models / "large", heads=(2, 2), **LARGE)
    variables = {
        "TINKERSCRIPT_MODELS": f"large={large}",
        "TINKERSCRIPT_RUNTIME_MEMORY_GIB": NODE_GIB,
    }
    with served_on_cluster(tmp_path, embedded_s3, variables) as server:
        yield server


def test_an_engine_that_no_pod_has_room_for_is_over_two_and_a_lost_one_is_named(
    server: Served, tmp_path: Path
) -> None:
    """The session trains, loses the other node, and goes on from journal and state. A pod that
    takes more memory than it was given, and than the prediction says, is killed.
    """
    remote = TinkerScript(base_model="large", base_url=server.url, api_key=server.key, **OPTIONS)
    assert len(parts(tmp_path)) == 1
    play(remote, TASKS[0])
    until(
        lambda: list(remote.events(kinds=["metric"])), "the first step was taken", timeout_s=STEP_S
    )
    lost = datetime.now(UTC)
    server.node_lose()
    ready_again(remote, again_s=AGAIN_S)
    play(remote, TASKS[1])
    remote.download_tuned_model(tmp_path / "tuned", progress=False)
    accounting = remote.accounting()
    assert accounting.balances and accounting.trained == accounting.begun == 2 * GRPO_N
    assert [event.data["step"] for event in remote.events(kinds=["metric"])] == [1, 2]
    (fault,) = [
        event for event in remote.events(kinds=["event"]) if event.data["name"] == "runtime_fault"
    ]
    assert fault.data["code"] in {"engine_dead", "trainer_failed"} and re.search(
        LOST, fault.data["cause"]
    ), fault
    assert (fault.at - lost).total_seconds() < LOST_S
    remote.close()
    until(lambda: not parts(tmp_path), "it has ended")


def parts(folder: Path) -> list[psutil.Process]:
    """Of engines whose session is in ``folder``, on the second node."""
    return [
        process for process in psutil.process_iter(["cmdline", "cwd"]) if is_part(process, folder)
    ]
