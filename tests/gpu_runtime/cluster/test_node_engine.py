"""The runtime's end of an engine on another node of Ray, where a counter stands in for vLLM's."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launching.ray_nodes import OTHER, Program, RayNodes, ray_nodes
from support import node_streams

MINUTE_S = 60
pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]


@pytest.fixture
def cluster() -> Iterator[RayNodes]:
    with ray_nodes() as nodes:
        yield nodes


def begun(folder: Path, lost: str) -> Program:
    return Program(node_streams.__file__, folder, lost=lost)


def test_calls_stream_end_when_closed_and_weights_are_its_nodes_own(
    cluster: RayNodes, tmp_path: Path
) -> None:
    """And an engine that ends by itself is named with its node."""
    told = begun(tmp_path, "engine").found()
    assert told["whole"] == [8, 9, 10, 11, 12] and told["at once"] == [told["whole"]] * 8
    assert told["closed"] == [8, 9, 10] and told["refused"] == "an empty prompt"
    assert told["version"] == [3, 3] and told["ending"] == f"on node {OTHER} was killed"
    lines = (tmp_path / "told").read_text().splitlines()
    assert "weights of node-1" in lines and lines[-1] == "closed"
    (closed,) = [line for line in lines if line.startswith("closed is over")]
    assert int(closed.rpartition(" ")[2]) < 1000, "what was closed here ends there"


@pytest.mark.parametrize("busy", ["call", "idle"])
def test_a_node_that_is_lost_ends_its_engine_by_name_within_a_minute(
    cluster: RayNodes, tmp_path: Path, busy: str
) -> None:
    run = begun(tmp_path, busy)
    run.met()
    cluster.lose()
    began = time.monotonic()
    told = run.found(MINUTE_S)
    assert time.monotonic() - began < MINUTE_S
    assert told["fault"] == "EngineDead" and f"node {OTHER} is lost" in told["says"], told
