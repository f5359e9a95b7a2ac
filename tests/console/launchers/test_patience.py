"""How long a pod waits for a machine that says nothing, and what is said then."""

from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes import client

from console.scheduling.launchers.kubernetes.manifests import INDEX, UNHEARD_S
from console.scheduling.launchers.kubernetes.pods import PREPARING_S, Patience, pods_status
from console.scheduling.launchers.protocol import RuntimeStatus

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOT_READY = [client.V1PodCondition(type="Ready", status="False")]
TAKEN = "machine n1 is lost: it has not taken the pod in 60 s"
HEARD = "machine n1 is lost: the cluster has not heard of it for 60 s"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def pod(
    index: int = 0, machine: str | None = "n1", phase: str = "Pending", **status: Any
) -> client.V1Pod:
    return client.V1Pod(
        metadata=client.V1ObjectMeta(uid=f"uid-{index}", annotations={INDEX: str(index)}),
        spec=client.V1PodSpec(containers=[client.V1Container(name="runtime")], node_name=machine),
        status=client.V1PodStatus(phase=phase, **status),
    )


def seen(patience: Patience, clock: Clock, after_s: float, *pods: client.V1Pod) -> RuntimeStatus:
    """After it was looked at ``after_s`` before too."""
    patience.ended("launch", pods)
    clock.now += after_s
    return pods_status(pods, of=len(pods), has_failed=False, unheard=patience.ended("launch", pods))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def patience(clock: Clock) -> Patience:
    return Patience(clock)


def test_a_machine_that_does_not_take_its_pod_is_lost_after_a_minute(patience, clock) -> None:
    assert seen(patience, clock, UNHEARD_S - 1, pod()).state == "waiting"
    assert seen(patience, clock, 1, pod()) == RuntimeStatus("exited", reason=TAKEN)


def test_of_several_pods_the_one_whose_machine_is_lost_is_named(patience, clock) -> None:
    first = pod(phase="Running", start_time=NOW)
    assert seen(patience, clock, UNHEARD_S, first, pod(1)) == RuntimeStatus(
        "exited", reason=f"pod 2 of 2: {TAKEN}"
    )


def test_a_pod_that_has_no_machine_yet_waits_as_long_as_it_takes(patience, clock) -> None:
    assert seen(patience, clock, 100 * PREPARING_S, pod(machine=None)).state == "waiting"


def test_a_machine_that_has_taken_its_pod_may_prepare_it_for_half_an_hour(patience, clock) -> None:
    assert seen(patience, clock, PREPARING_S - 1, pod(start_time=NOW)).state == "waiting"
    said = "machine n1 has not prepared it in 30 minutes"
    assert seen(patience, clock, 1, pod(start_time=NOW)) == RuntimeStatus("exited", reason=said)


def test_a_pod_that_runs_on_a_machine_that_is_not_heard_runs_with_that_reason(
    patience, clock
) -> None:
    """Whether it is lost says its lease."""
    silent = pod(phase="Running", start_time=NOW, conditions=NOT_READY)
    assert seen(patience, clock, UNHEARD_S - 1, silent) == RuntimeStatus("running")
    assert seen(patience, clock, 1, silent) == RuntimeStatus("running", reason=HEARD)


def test_a_machine_that_is_heard_again_has_the_whole_time_anew(patience, clock) -> None:
    silent, heard = (
        pod(phase="Running", start_time=NOW, conditions=it) for it in (NOT_READY, None)
    )
    seen(patience, clock, UNHEARD_S - 1, silent)
    assert seen(patience, clock, 1, heard) == RuntimeStatus("running")
    assert seen(patience, clock, UNHEARD_S - 1, silent) == RuntimeStatus("running")


def test_what_waits_longer_ago_than_the_launcher_looks_is_not_judged_by_the_clock_of_the_cluster(
    clock,
) -> None:
    """The first look of a launcher is the beginning: a pod made long ago, or in the future, waits a
    minute more.
    """
    assert seen(Patience(clock), clock, 0, pod(conditions=[])).state == "waiting"
