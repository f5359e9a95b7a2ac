"""The Kubernetes launcher on a real cluster of three nodes: a session of two pods, and the loss of a node of it."""

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
  n=0; while [ $((n+=1)) -lt 1200 ]; do echo heard | nc -l -p 7001; done
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


def test_two_pods_on_two_machines_hear_each_other_by_name_and_move_when_one_machine_is_lost(
    cluster: NodesCluster, tmp_path: Path
) -> None:
    # So much that the scheduler sees a free machine beside one that is lost, which it does not know yet.
    large = Resources(memory_bytes=4 << 30)
    options = {"image": RUNTIME, "resources": large, "kubernetes_namespace": cluster.namespace}
    launcher = kubernetes_launcher(cluster.api, data=tmp_path / "data", kubernetes_claim=CLAIM, **options)
    folder = tmp_path / "data" / "ses_0123456789abcdef"
    handle = pair_start(launcher, folder, "0" * 8)
    heard = wait_until(lambda: launcher.logs(handle, lines=5) == ["heard"], timeout_s=WAIT_S, poll_s=0.2)
    assert heard, (launcher.inspect(handle), launcher.logs(handle, lines=5))
    assert launcher.inspect(handle) == RuntimeStatus("running")
    first, second = cluster.pods()
    assert first.spec.node_name != second.spec.node_name
    lost = cluster.node_of(second)
    lost.lose()

    began = time.monotonic()
    launcher.stop(handle, grace_s=0)
    assert launcher.inspect(handle) == RuntimeStatus("gone")
    later = pair_start(launcher, folder, "1" * 8)
    assert time.monotonic() - began < STOP_S, "a pod that nobody ends any more is not waited for"
    assert wait_until(lambda: launcher.logs(later, lines=5) == ["heard"], timeout_s=WAIT_S, poll_s=0.2)
    running = [pod for pod in cluster.pods() if pod.metadata.deletion_timestamp is None]
    assert len(running) == 2 and lost.place.name not in {pod.spec.node_name for pod in running}
    launcher.stop(later, grace_s=1)
