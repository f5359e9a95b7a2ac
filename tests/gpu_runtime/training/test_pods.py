"""Ranks of one trainer in two pods of an Indexed Job: they meet, and what is lost or differs is
named.

Kubernetes is the fake of tests/launching, whose pods are processes with addresses of their own; the
launcher, the pods' programs and the ranks are the real ones.
"""

import asyncio
import json
import os
import shlex
import signal
import ssl
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from console.config.own_certificate import certificate_make
from console.scheduling.launchers.protocol import Handle, Resources
from console.scheduling.processes import wait_until
from gpu_runtime.errors import PlacementImpossible
from gpu_runtime.training.nodes import pod_host, pods
from gpu_runtime.training.nodes.job import Node, job_nodes
from gpu_runtime.training.nodes.pod_hold import pods_held, pods_started
from gpu_runtime.training.nodes.remote_rank import MODULE, SILENT_S
from launching.backends import kubernetes_launcher
from launching.fake_kubernetes import FakeKubernetes
from support import node_ranks
from support.lost_ranks import MINUTE_S, found_within_a_minute
from support.ports import free_port
from support.tiny_model import tiny_model_make

RUN_S = 240
TWO: dict[str, object] = {"trainer_ranks": 2, "nodes": 2}
HOST = f"exec {sys.executable} -m gpu_runtime"

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def cluster() -> Iterator[FakeKubernetes]:
    if os.geteuid() != 0:
        pytest.skip("pods with a hosts file of their own are started by root alone")
    cluster = FakeKubernetes()
    yield cluster
    cluster.close()


class Job:
    """Both pods of one runtime; in the first is support/node_ranks.py, in the other ``host``."""

    def __init__(
        self, cluster: FakeKubernetes, folder: Path, host: str = HOST, **wanted: object
    ) -> None:
        self.cluster, self.folder = cluster, folder
        tiny_model_make(folder / "model")
        (folder / "config.json").write_text(json.dumps({"config": TWO} | wanted))
        first = shlex.join([sys.executable, node_ranks.__file__, str(folder)])
        environment = {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PROGRAM": f'if [ "$JOB_COMPLETION_INDEX" = 0 ]; then exec {first}; else {host}; fi',
        }
        small = Resources(memory_bytes=3 << 30, cpus=1)
        self.launcher = kubernetes_launcher(
            cluster.url, resources=small, kubernetes_claim="data", data=folder
        )
        fresh = self.launcher.new_handle(
            session_id="ses_0123456789abcdef", instance_id="0123abcd", folder=folder
        )
        self.handle: Handle = self.launcher.start(fresh | {"nodes": 2}, environment=environment)

    def pod(self, index: int) -> psutil.Process:
        (name,) = [
            name for name in self.cluster.processes if f"-{index}-" in name.removeprefix("ts-ses-")
        ]
        return psutil.Process(self.cluster.processes[name].pid)

    def rank_elsewhere(self) -> psutil.Process:
        """Once the ranks have met."""
        assert wait_until((self.folder / "met").exists, timeout_s=RUN_S, poll_s=0.2), self.log()
        (rank,) = [
            it for it in self.pod(1).children(recursive=True) if it.cmdline()[-1:] == [MODULE]
        ]
        return rank

    def found(self) -> dict:
        assert wait_until((self.folder / "found.json").exists, timeout_s=RUN_S, poll_s=0.2), (
            self.log()
        )
        return json.loads((self.folder / "found.json").read_text())

    def log(self) -> str:
        return "\n".join(self.launcher.logs(self.handle, lines=40))


@pytest.mark.system
@pytest.mark.parametrize("what", ["rank", "pod", "silent"])
def test_what_is_lost_of_the_other_pod_is_a_named_failure_within_a_minute(
    cluster, tmp_path, what: str
) -> None:
    """A pod that is stopped sends nothing and closes nothing, like a machine without power."""
    job = Job(cluster, tmp_path)
    rank, pod = job.rank_elsewhere(), job.pod(1)
    lost, how = (
        ([pod, rank] if what != "rank" else [rank]),
        signal.SIGSTOP if what == "silent" else signal.SIGKILL,
    )
    found = found_within_a_minute(lost, how, job.found)
    if what == "rank":
        assert found["fault"] == "TrainerKilled" and "trainer rank 1 was killed" in found["says"]
    else:
        says = "is lost: its pod went away" if what == "pod" else "is not reached: no sign of life"
        assert found["fault"] == "TrainerFailed" and says in found["says"], found
        assert pods.pod_name(job.launcher.address(job.handle, port=7000))[:-1] in found["says"]


@pytest.mark.system
@pytest.mark.parametrize("what", ["model", "version"])
def test_a_pod_that_has_something_else_is_refused_by_name_before_it_trains(
    cluster, tmp_path, what: str
) -> None:
    other = tiny_model_make(tmp_path / "other", seed=1)
    found = Job(
        cluster, tmp_path, **({"other_model": str(other)} if what == "model" else {"torch": "1.0"})
    ).found()
    assert found["fault"] == "NodesDiffer" and found["seconds"] < MINUTE_S
    assert (
        "its files are others than on ts-ses-" if what == "model" else "has torch 1.0"
    ) in found["says"]


@pytest.mark.system
def test_a_pod_that_runs_and_is_not_reached_is_named_and_those_beside_it_are_ended(
    cluster, tmp_path
) -> None:
    job = Job(cluster, tmp_path, host="exec sleep 600", start_s=5)
    found = job.found()
    assert found["fault"] == "TrainerFailed" and found["seconds"] < MINUTE_S
    assert found["says"].startswith("node ts-ses-") and "-1 is not reached" in found["says"]
    job.launcher.stop(job.handle, grace_s=0)
    assert list(cluster.objects) == []


@pytest.mark.system
def test_notice_of_the_other_machine_reaches_the_runtime_whose_ranks_live_on_and_end_with_it(
    cluster, tmp_path
) -> None:
    job = Job(cluster, tmp_path)
    rank, pod = job.rank_elsewhere(), job.pod(1)
    pod.send_signal(signal.SIGTERM)
    assert wait_until((tmp_path / "noticed").exists, timeout_s=MINUTE_S)
    assert rank.is_running() and pod.is_running(), "the runtime needs them to store its state"
    job.pod(0).kill()
    assert wait_until(
        lambda: not rank.is_running() and not alive(pod), timeout_s=SILENT_S, poll_s=0.1
    )


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.fixture
def own_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them on this machine's loopback."""
    monkeypatch.setenv(pods.PODS, "localhost,localhost")
    monkeypatch.setenv(pods.OWN_ADDRESS, "127.0.0.1")
    monkeypatch.setenv(pods.KEY, "".join(certificate_make("pods")))


async def test_only_who_has_the_sessions_key_is_served(own_pods, monkeypatch) -> None:
    monkeypatch.setattr(pods, "PORT", port := free_port())
    monkeypatch.setattr(pod_host, "PORT", port)
    monkeypatch.setattr(pod_host, "SHAKE_S", 1.0)  # for one who does not speak TLS
    serving = asyncio.create_task(pod_host.PodHost().run())
    async with pods_held(lambda: None):
        monkeypatch.setenv(pods.KEY, "".join(certificate_make("pods")))
        stranger = pods.tls_context(ssl.PROTOCOL_TLS_CLIENT)
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("localhost", port, ssl=stranger)
        stranger.verify_mode = ssl.CERT_NONE
        for context in (stranger, None):
            reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
            writer.write(pods.RUN)
            with suppress(OSError):
                assert await reader.read() == b""
            writer.close()
        assert not serving.done()
    await serving


def test_the_nodes_of_a_job_of_kubernetes_are_its_pods_and_another_number_is_refused() -> None:
    inside = {pods.PODS: "ts-x-0.ts-x.tests.svc,ts-x-1.ts-x.tests.svc"}
    there = [Node("ts-x-0", "ts-x-0.ts-x.tests.svc"), Node("ts-x-1", "ts-x-1.ts-x.tests.svc")]
    assert job_nodes(2, inside) == there
    with pytest.raises(PlacementImpossible, match="nodes=3, and this Job of Kubernetes has 2 pods"):
        job_nodes(3, inside)


def test_a_runtime_that_is_alone_waits_for_no_pod_and_holds_none() -> None:
    async def both() -> None:
        await pods_started()
        async with pods_held(lambda: None):
            pass

    asyncio.run(both())
    assert pods.pod_index({pods.INDEX: "1"}) == 0, "a Job that is not ours"
