"""One engine over two pods of a real Kubernetes, which share no memory: the tokens of one, and a
node that is lost.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launching.nodes_cluster import NodesCluster, nodes_cluster
from launching.pods_job import PodsJob
from support import node_engine
from support.lost_ranks import MINUTE_S
from support.tiny_model import tiny_model_make

pytestmark = [pytest.mark.engine, pytest.mark.nightly, pytest.mark.timeout(1200)]
RUN_S, HEADS = 480, (2, 2)
OVER_BOTH: dict[str, object] = {"config": {"trainer_ranks": 2, "nodes": 2}, "engine_nodes": 2}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NodesCluster]:
    (tmp_path / "data" / "models").mkdir(parents=True)
    with nodes_cluster(2, tmp_path / "data") as cluster:
        yield cluster


def job_start(cluster: NodesCluster, folder: Path, **wanted: object) -> PodsJob:
    same = {"heads": HEADS, "memory_gib": 5, "within_s": RUN_S}
    return PodsJob(cluster, folder / "data", node_engine.__file__, OVER_BOTH | wanted, **same)


def beside(folder: Path) -> dict:
    """An engine on this machine alone, with as many ranks."""
    tiny_model_make(folder / "model", heads=HEADS)
    (folder / "config.json").write_text(json.dumps({"config": {"trainer_ranks": 2}}))
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TINKERSCRIPT_RUNTIME_CPUS": "1",
    }
    with (folder / "log").open("wb") as log:
        command = [sys.executable, node_engine.__file__, str(folder)]
        subprocess.run(command, check=True, env=environment, stdout=log, stderr=log, timeout=RUN_S)
    return json.loads((folder / "found.json").read_text())


def test_an_engine_over_two_pods_samples_as_one_and_takes_the_trainers_weights(
    cluster: NodesCluster, tmp_path: Path
) -> None:
    job = job_start(cluster, tmp_path)
    found = json.loads(job.wait("found.json").read_text())
    assert "fault" not in found, found
    job.launcher.stop(job.handle, grace_s=1)
    here = beside(tmp_path / "here")
    for when in ("before", "after"):
        assert found[when][0] == here[when][0]
        assert found[when][1] == pytest.approx(here[when][1], abs=1e-5)
    assert found["before"][1] != pytest.approx(found["after"][1], abs=1e-2), (
        "these weights are others"
    )
    assert found["trained"] == pytest.approx(found["after"][1], abs=1e-4), (
        "and they are the trainer's"
    )


def test_a_node_that_loses_its_power_ends_the_engine_by_name_within_a_minute(
    cluster: NodesCluster, tmp_path: Path
) -> None:
    job = job_start(cluster, tmp_path, lost="busy")
    job.wait("serves")
    cluster.node_of(cluster.pods()[1]).lose()
    began = time.monotonic()
    found = json.loads(job.wait("found.json").read_text())
    assert time.monotonic() - began < MINUTE_S
    assert found["fault"] == "EngineDead" and found["says"].startswith("node "), found
    assert "is lost: its pod went away" in found["says"] or "is not reached" in found["says"], found
    job.launcher.stop(job.handle, grace_s=0)
