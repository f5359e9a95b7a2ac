"""Ranks of one trainer in two pods of a real Kubernetes, each on a node of its own: they train, and a node is lost."""

import json
import math
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.scheduling.launchers.kubernetes_objects.manifests import USER
from console.scheduling.launchers.protocol import Resources
from console.scheduling.processes import wait_until
from gpu_runtime.training.nodes import pods
from launching.backends import kubernetes_launcher
from launching.kubernetes_images import SHELL, of_checkout
from launching.nodes_cluster import NodesCluster, nodes_cluster
from launching.real_kubernetes import CLAIM
from support import node_ranks
from support.lost_ranks import MINUTE_S
from support.tiny_model import tiny_model_make

RUN_S = 150
TWO: dict[str, object] = {"trainer_ranks": 2, "nodes": 2}

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NodesCluster]:
    (tmp_path / "data" / "models").mkdir(parents=True)
    with nodes_cluster(2, tmp_path / "data") as cluster:
        yield cluster


class Job:
    """Both pods of one runtime; in the first is support/node_ranks.py, in the other the product."""

    def __init__(self, cluster: NodesCluster, data: Path, **wanted: object) -> None:
        self.folder = data / "ses_0123456789abcdef"
        tiny_model_make(self.folder / "model")
        (self.folder / "config.json").write_text(json.dumps({"config": TWO} | wanted))
        subprocess.run(["chown", "-R", f"{USER}:{USER}", self.folder], check=True, timeout=20)
        first, python = shlex.join([sys.executable, node_ranks.__file__, str(self.folder)]), sys.executable
        program = f'[ "$JOB_COMPLETION_INDEX" != 0 ] || exec {first}; exec {python} -m gpu_runtime'
        self.launcher = kubernetes_launcher(
            cluster.api, data=data, image=of_checkout(SHELL), resources=Resources(memory_bytes=3 << 30, cpus=1),
            kubernetes_namespace=cluster.namespace, kubernetes_claim=CLAIM,
        )  # fmt: skip
        # Ranks find one another in the folder that all pods have: /tmp is of each its own.
        environment = {"PROGRAM": program, "TINKERSCRIPT_RUNTIME_DIR": str(self.folder)}
        names = {"session_id": self.folder.name, "instance_id": "0123abcd", "folder": self.folder}
        fresh = self.launcher.new_handle(**names) | {"nodes": 2}
        self.handle = self.launcher.start(fresh, environment=environment)

    def wait(self, name: str) -> Path:
        """For a file that the first pod writes."""
        path = self.folder / name
        assert wait_until(path.exists, timeout_s=RUN_S, poll_s=0.2), self.launcher.logs(self.handle, lines=40)
        return path


def test_two_pods_on_two_nodes_train_steps_together(cluster: NodesCluster, tmp_path: Path) -> None:
    job = Job(cluster, tmp_path / "data", steps=[1, 2])
    found = json.loads(job.wait("found.json").read_text())
    assert math.isfinite(found["metrics"]["loss"]) and found["notices"] == 0, found
    assert (job.folder / "exported" / "model.safetensors").exists()
    job.launcher.stop(job.handle, grace_s=1)


def test_a_node_that_loses_its_power_is_a_named_failure_within_a_minute(cluster: NodesCluster, tmp_path: Path) -> None:
    job = Job(cluster, tmp_path / "data")
    job.wait("met")
    cluster.node_of(cluster.pods()[1]).lose()
    began = time.monotonic()
    found = json.loads(job.wait("found.json").read_text())
    assert time.monotonic() - began < MINUTE_S
    name = pods.pod_name(job.launcher.address(job.handle, port=7000))[:-1] + "1"
    # The network's patience and the line's own are both 30 s.
    says = re.compile(rf"node {name} is (lost: its pod went away under|not reached: no sign of life of) trainer-rank-1")
    assert found["fault"] == "TrainerFailed" and says.match(found["says"]), found
    job.launcher.stop(job.handle, grace_s=0)
