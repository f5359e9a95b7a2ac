"""Ranks of one trainer in two pods of a real Kubernetes, each on a node of its own: they train, and
a node is lost.
"""

import json
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_runtime.training.nodes import pods
from launching.nodes_cluster import NodesCluster, nodes_cluster
from launching.pods_job import PodsJob
from support import node_ranks
from support.lost_ranks import MINUTE_S

TWO: dict[str, object] = {"trainer_ranks": 2, "nodes": 2}

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NodesCluster]:
    (tmp_path / "data" / "models").mkdir(parents=True)
    with nodes_cluster(2, tmp_path / "data") as cluster:
        yield cluster


def job_start(cluster: NodesCluster, data: Path, **wanted: object) -> PodsJob:
    """Of support/node_ranks.py."""
    return PodsJob(cluster, data, node_ranks.__file__, {"config": TWO} | wanted)


def test_two_pods_on_two_nodes_train_steps_together(cluster: NodesCluster, tmp_path: Path) -> None:
    job = job_start(cluster, tmp_path / "data", steps=[1, 2])
    found = json.loads(job.wait("found.json").read_text())
    assert math.isfinite(found["metrics"]["loss"]) and found["notices"] == 0, found
    assert (job.folder / "exported" / "model.safetensors").exists()
    job.launcher.stop(job.handle, grace_s=1)


def test_a_node_that_loses_its_power_is_a_named_failure_within_a_minute(
    cluster: NodesCluster, tmp_path: Path
) -> None:
    job = job_start(cluster, tmp_path / "data")
    job.wait("met")
    cluster.node_of(cluster.pods()[1]).lose()
    began = time.monotonic()
    found = json.loads(job.wait("found.json").read_text())
    assert time.monotonic() - began < MINUTE_S
    name = pods.pod_name(job.launcher.address(job.handle, port=7000))[:-1] + "1"
    # The network's patience and the line's own are both 30 s.
    says = re.compile(
        rf"node {name} is (lost: its pod went away under|not reached: no sign of life of) trainer-rank-1"
    )
    assert found["fault"] == "TrainerFailed" and says.match(found["says"]), found
    job.launcher.stop(job.handle, grace_s=0)
