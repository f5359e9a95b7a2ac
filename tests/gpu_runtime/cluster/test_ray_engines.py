"""An engine on each of two real nodes of Ray, beside the ranks there: the same tokens, the same
weights, and a named end of a node that is lost in a hand-over.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from console.scheduling.processes import wait_until
from launching.ray_nodes import HEAD, OTHER, PYTHON, ray_nodes
from support import node_engine
from support.tiny_model import tiny_model_make

RUN_S, MINUTE_S = 600, 60
TWO: dict[str, object] = {"trainer_ranks": 2, "nodes": 2}
pytestmark = [pytest.mark.engine, pytest.mark.timeout(1000)]


def begun(folder: Path, **wanted: object) -> subprocess.Popen[bytes]:
    """support/node_engine.py on the head's node."""
    tiny_model_make(folder / "model")
    (folder / "config.json").write_text(json.dumps({"config": TWO, "own": HEAD} | wanted))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with (folder / "log").open("wb") as log:
        command = [PYTHON, node_engine.__file__, str(folder)]
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def found(folder: Path, process: subprocess.Popen[bytes], within_s: float) -> dict:
    try:
        assert process.wait(within_s) == 0, said(folder)
    finally:
        process.kill()
    return json.loads((folder / "found.json").read_text())


def said(folder: Path) -> str:
    return (folder / "log").read_text(errors="replace")[-4000:]


@pytest.mark.parametrize("trains", [{}, {"zero_stage": 3, "lora_rank": 4}], ids=["whole", "cut"])
def test_engines_on_two_nodes_have_the_same_tokens_and_take_a_steps_weights(
    tmp_path: Path, trains: dict[str, object]
) -> None:
    with ray_nodes():
        run = begun(tmp_path, config=TWO | trains)
        told = found(tmp_path, run, RUN_S)
    assert "fault" not in told, (told, said(tmp_path))
    for when in ("before", "after"):
        (here, there) = told[when]
        assert here[0] == there[0] and here[1] == pytest.approx(there[1], abs=1e-5)
    assert told["before"][0] != told["after"][0]
    assert told["trained"] == pytest.approx(told["after"][1][1], abs=1e-3)


def test_a_node_lost_in_a_hand_over_ends_the_runtime_by_name_within_a_minute(
    tmp_path: Path,
) -> None:
    with ray_nodes() as nodes:
        run = begun(tmp_path, lost=True)
        assert wait_until((tmp_path / "met").exists, timeout_s=RUN_S, poll_s=0.05), said(tmp_path)
        nodes.lose()
        began = time.monotonic()
        told = found(tmp_path, run, MINUTE_S)
    assert time.monotonic() - began < MINUTE_S
    assert told["fault"] in ("EngineDead", "TrainerFailed") and f"node {OTHER}" in told["says"]
