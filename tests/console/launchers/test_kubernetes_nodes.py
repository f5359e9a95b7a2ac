"""The Kubernetes launcher on a real cluster of several nodes: a session of two pods, and the loss
of a node of it.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.scheduling.launchers.kubernetes.launcher import KubernetesLauncher
from console.scheduling.launchers.kubernetes.manifests import PODS, USER
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

pytestmark = pytest.mark.timeout(500)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NodesCluster]:
    (tmp_path / "data" / "models").mkdir(parents=True)
    with nodes_cluster(3, tmp_path / "data") as cluster:
        yield cluster


def pair_start(launcher: KubernetesLauncher, folder: Path, instance: str) -> Handle:
    folder.mkdir(exist_ok=True)
    os.chown(folder, USER, USER)
    fresh = launcher.new_handle(
        session_id="ses_0123456789abcdef", instance_id=instance, folder=folder
    )
    return launcher.start(fresh | {"nodes": 2}, environment={"PROGRAM": PROGRAM})


def one_start(launcher: KubernetesLauncher, folder: Path, number: int) -> Handle:
    """A runtime of one pod, of a session of that number."""
    session = folder / "data" / f"ses_{number:016d}"
    session.mkdir(exist_ok=True)
    os.chown(session, USER, USER)
    fresh = launcher.new_handle(session_id=session.name, instance_id="0123abcd", folder=session)
    return launcher.start(fresh, environment={"PROGRAM": WAIT})


def test_two_pods_on_two_machines_hear_each_other_by_name_and_one_of_a_lost_machine_is_not_waited_for(
    cluster: NodesCluster, tmp_path: Path
) -> None:
    small = Resources(memory_bytes=64 << 20)
    options = {"image": RUNTIME, "resources": small, "kubernetes_namespace": cluster.namespace}
    launcher = kubernetes_launcher(
        cluster.api, data=tmp_path / "data", kubernetes_claim=CLAIM, **options
    )
    folder = tmp_path / "data" / "ses_0123456789abcdef"
    handle = pair_start(launcher, folder, "0123abcd")
    heard = wait_until(
        lambda: launcher.logs(handle, lines=5) == ["heard"], timeout_s=WAIT_S, poll_s=0.2
    )
    assert heard, (launcher.inspect(handle), launcher.logs(handle, lines=5))
    assert launcher.inspect(handle) == RuntimeStatus("running")
    first, second = cluster.pods()
    assert first.spec.node_name != second.spec.node_name
    cluster.node_of(second).lose()

    began = time.monotonic()
    launcher.stop(handle, grace_s=0)
    assert launcher.inspect(handle) == RuntimeStatus("gone")
    assert time.monotonic() - began < STOP_S, "a pod that nobody ends any more is not waited for"


def test_where_every_machine_is_lost_pods_on_them_are_named_and_the_next_one_takes_the_session(
    tmp_path: Path,
) -> None:
    """Kubernetes itself takes none from them then: of a pod that never ran it would tell us for
    ever that it waits.
    """
    (tmp_path / "data" / "models").mkdir(parents=True)
    with nodes_cluster(2, tmp_path / "data", spare=1) as cluster:
        options = {"image": RUNTIME, "resources": Resources(memory_bytes=64 << 20)}
        launcher = kubernetes_launcher(
            cluster.api,
            data=tmp_path / "data",
            kubernetes_claim=CLAIM,
            kubernetes_namespace=cluster.namespace,
            **options,
        )
        before = one_start(launcher, tmp_path, 1)
        assert wait_until(
            lambda: launcher.inspect(before).state == "running", timeout_s=WAIT_S, poll_s=0.2
        )
        for node in cluster.nodes:
            node.lose()
        # as after 45 s without a heartbeat, when the cluster knows of nothing
        late = one_start(launcher, tmp_path, 2)

        def is_told(handle: Handle, words: str) -> bool:
            """Beside a look at the other, as the reconciler looks at all of them."""
            said = {each["launch"]: launcher.inspect(each).reason for each in (before, late)}
            return words in said[handle["launch"]]

        assert wait_until(
            lambda: is_told(late, "it has not taken the pod"), timeout_s=WAIT_S, poll_s=0.5
        )
        status = launcher.inspect(late)
        assert (
            status.state == "exited"
            and "is lost: it has not taken the pod in 60 s" in status.reason
        )
        assert wait_until(lambda: is_told(before, "is lost"), timeout_s=WAIT_S, poll_s=0.5)
        status = launcher.inspect(before)
        assert (
            status.state == "running"
            and "the cluster has not heard of it for 60 s" in status.reason
        )

        for handle in (before, late):
            launcher.stop(handle, grace_s=0)
            assert launcher.inspect(handle) == RuntimeStatus("gone")
        again = one_start(launcher, tmp_path, 2)
        assert wait_until(
            lambda: "nodes" in launcher.inspect(again).reason, timeout_s=WAIT_S, poll_s=0.5
        )
        assert launcher.inspect(again).state == "waiting", "no lost machine is given it"
        cluster.node_add()
        running = wait_until(
            lambda: launcher.inspect(again).state == "running", timeout_s=WAIT_S, poll_s=0.5
        )
        assert running, launcher.inspect(again)
        launcher.stop(again, grace_s=1)
