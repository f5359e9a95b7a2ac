"""An engine on each of two real nodes of Ray, beside the ranks there: the same tokens, the same
weights, and a named end of a node that is lost in a hand-over.
"""

import time
from pathlib import Path

import pytest

from launching.ray_nodes import OTHER, Program, ray_nodes
from support import node_engine
from support.tiny_model import tiny_model_make

MINUTE_S = 60
TWO: dict[str, object] = {"trainer_ranks": 2, "nodes": 2}
pytestmark = [pytest.mark.engine, pytest.mark.timeout(1000)]


def begun(folder: Path, **wanted: object) -> Program:
    tiny_model_make(folder / "model")
    return Program(node_engine.__file__, folder, **({"config": TWO} | wanted))


@pytest.mark.parametrize("trains", [{}, {"zero_stage": 3, "lora_rank": 4}], ids=["whole", "cut"])
def test_engines_on_two_nodes_have_the_same_tokens_and_take_a_steps_weights(
    tmp_path: Path, trains: dict[str, object]
) -> None:
    with ray_nodes():
        run = begun(tmp_path, config=TWO | trains)
        told = run.found()
    assert "fault" not in told, (told, run.log())
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
        run.met()
        nodes.lose()
        began = time.monotonic()
        told = run.found(MINUTE_S)
    assert time.monotonic() - began < MINUTE_S
    assert told["fault"] in ("EngineDead", "TrainerFailed") and f"node {OTHER}" in told["says"]
