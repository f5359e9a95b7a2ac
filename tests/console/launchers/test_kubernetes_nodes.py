"""The Kubernetes launcher on a real cluster of several nodes: a session of two pods, and the loss of a node of it."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.scheduling.launchers.kubernetes import KubernetesLauncher
from console.scheduling.launchers.kubernetes_objects.manifests import PODS, USER
from console.scheduling.launchers.protocol import Handle, Resources, RuntimeStatus
from console.scheduling.processes import wait_until
from launching.backends import WAIT, kubernetes_launcher
from launching.kubernetes_images import RUNTIME
from launching.nodes_cluster import NodesCluster, nodes_cluster
from launching.real_kubernetes import CLAIM

WAIT_S, STOP_S = 120, 20
# The first asks the other by its name until it responds.
PROGRAM = f"""
if [ "$JOB_COMPLETION_INDEX" = 0 ]; then
  n=0; until nc -w 2 ${{{PODS}#*,}} 7001 </dev/null | grep heard || [ $((n+=1)) -gt 1200 ]; do sleep 0.2; done; {WAIT}
else
  n=0; while [ $((n+=1)) -lt 1200 ]; do echo heard | nc -l -p 7001; sleep 0.1; done
fi"""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NodesCluster]:
    (tmp_path / "data" / "models").mkdir(parents=True)
    with nodes_cluster(3, tmp_path / "data") as cluster:
        yield cluster


def pair_start(launcher: KubernetesLauncher, folder: Path, instance: str) -> Handle:
    folder.mkdir(exist_ok=True)
    os.chown(folder, USER, USER)
    fresh = launcher.new_handle(session_id="ses_0123456789abcdef", instance_id=instance, folder=folder)
    return launcher.start(fresh | {"nodes": 2}, environment={"PROGRAM": PROGRAM})


def test_two_pods_on_two_machines_hear_each_other_by_name_and_one_of_a_lost_machine_is_not_waited_for(
    cluster: NodesCluster, tmp_path: Path
) -> None:
    small = Resources(memory_bytes=64 << 20)
    options = {"image": RUNTIME, "resources": small, "kubernetes_namespace": cluster.namespace}
    launcher = kubernetes_launcher(cluster.api, data=tmp_path / "data", kubernetes_claim=CLAIM, **options)
    folder = tmp_path / "data" / "ses_0123456789abcdef"
    handle = pair_start(launcher, folder, "0123abcd")
    heard = wait_until(lambda: launcher.logs(handle, lines=5) == ["heard"], timeout_s=WAIT_S, poll_s=0.2)
    assert heard, (launcher.inspect(handle), launcher.logs(handle, lines=5))
    assert launcher.inspect(handle) == RuntimeStatus("running")
    first, second = cluster.pods()
    assert first.spec.node_name != second.spec.node_name
    cluster.node_of(second).lose()

    began = time.monotonic()
    launcher.stop(handle, grace_s=0)
    assert launcher.inspect(handle) == RuntimeStatus("gone")
    assert time.monotonic() - began < STOP_S, "a pod that nobody ends any more is not waited for"
