"""Ranks of one trainer on two real nodes of Ray: the same steps, and a named end of what is lost."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from launching.ray_nodes import HEAD, OTHER, Program, RayNodes, ray_nodes
from support import node_ranks
from support.tiny_model import tiny_model_make

MINUTE_S = 60
TWO: dict[str, object] = {"trainer_ranks": 2, "zero_stage": 2}
pytestmark = pytest.mark.timeout(1000)


@pytest.fixture
def cluster() -> Iterator[RayNodes]:
    with ray_nodes() as nodes:
        yield nodes


class Run(Program):
    """support/node_ranks.py; over the nodes of Ray that the variables name where ``config`` has
    several.
    """

    def __init__(self, folder: Path, config: dict[str, object], **wanted: object) -> None:
        folder.mkdir()
        tiny_model_make(folder / "model")
        usual = {"learning_rate": 1e-3, "micro_batch_tokens": 64}
        several = "nodes" in config
        told = {"config": usual | config, "own": HEAD if several else ""} | wanted
        super().__init__(node_ranks.__file__, folder, cpus=1 if several else 2, **told)

    def weights(self) -> dict[str, torch.Tensor]:
        return load_file(self.folder / "exported" / "model.safetensors")


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Run]:
    return lambda name, config, **wanted: Run(tmp_path / name, config, **wanted)


@pytest.mark.engine
def test_ranks_on_two_nodes_take_the_steps_of_two_on_one_and_go_on_from_their_state(
    cluster: RayNodes, run: Callable[..., Run]
) -> None:
    """To the bit: the same ranks sum the same parts in the same order."""
    there = run("there", TWO | {"nodes": 2}, steps=[1, 2])
    over_two = there.found()
    here = run("here", TWO, steps=[1, 2])
    assert over_two["metrics"] == here.found()["metrics"]
    unbroken = here.weights()
    assert all(torch.equal(tensor, unbroken[name]) for name, tensor in there.weights().items())
    back = run("back", TWO, state=str(there.folder / "state-1"), steps=[2])
    back.found()
    assert all(torch.equal(tensor, unbroken[name]) for name, tensor in back.weights().items())


@pytest.mark.system
@pytest.mark.parametrize(
    "trains",
    [{"meets": True}, pytest.param({"steps": []}, marks=pytest.mark.engine)],
    ids=["sums", "trains"],
)
def test_a_node_lost_in_a_step_ends_the_trainer_by_name_within_a_minute(
    cluster: RayNodes, run: Callable[..., Run], trains: dict[str, object]
) -> None:
    job = run("job", TWO | {"nodes": 2}, lost=True, **trains)
    job.met()
    cluster.lose()
    began = time.monotonic()
    found = job.found(MINUTE_S)
    assert found["fault"] == "TrainerFailed" and f"node {OTHER}" in found["says"], job.log()
    assert time.monotonic() - began < MINUTE_S


@pytest.mark.system
def test_a_rank_killed_on_a_node_that_lives_is_started_again(
    cluster: RayNodes, run: Callable[..., Run]
) -> None:
    job = run("job", TWO | {"nodes": 2}, meets=True, lost=True)
    job.met()
    (rank,) = [it for it in cluster.of_other() if "RankActor" in " ".join(it.cmdline())]
    rank.kill()
    found = job.found()
    assert "trainer rank 1 was killed" in found["killed"] and found["again"], job.log()


@pytest.mark.system
@pytest.mark.parametrize("what", ["model", "version"])
def test_a_node_that_has_something_else_is_refused_by_name_before_it_trains(
    cluster: RayNodes, run: Callable[..., Run], tmp_path: Path, what: str
) -> None:
    other = tiny_model_make(tmp_path / "other", seed=1)
    wanted = {"other_model": str(other)} if what == "model" else {"torch": "1.0"}
    found = run("job", TWO | {"nodes": 2}, meets=True, **wanted).found()
    assert found["fault"] == "NodesDiffer"
    says = f"on {OTHER} its files are others than on {HEAD}"
    assert (says if what == "model" else f"node {HEAD} has torch 1.0") in found["says"]


@pytest.mark.system
def test_a_cluster_that_is_too_small_is_named_with_what_was_found(
    cluster: RayNodes, run: Callable[..., Run]
) -> None:
    wanted = {"trainer_ranks": 3, "nodes": 3}
    found = run("job", wanted, meets=True, join_s=10).found()
    assert found["fault"] == "TrainerFailed"
    assert "needs 3 machines" in found["says"] and f"{OTHER} (CPU 1)" in found["says"]
