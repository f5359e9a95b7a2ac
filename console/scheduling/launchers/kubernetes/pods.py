"""What the pods of a runtime's Job say of it, and how long they may wait for their machines:
functions of the client's objects.

Of several pods the first, in which the runtime is, speaks for all while it lives. The others serve
it: when one is lost, the runtime finds that out and ends, or the Job's controller ends it, with the
notice of any pod.

A machine that has lost its power says nothing. Kubernetes takes pods from lost machines only while
others of the cluster are there (its full-disruption mode). What it says of a pod is enough to tell:
the right to read machines is one for the whole cluster, which a launcher has not.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from console.scheduling.launchers.kubernetes.manifests import INDEX, UNHEARD_S
from console.scheduling.launchers.protocol import RuntimeStatus

# A pod that waits for one of these gets what it waits for. Any other reason, such as ErrImagePull,
# is a mistake.
PATIENT = {"", "ContainerCreating", "PodInitializing"}
FAILED = {"Failed", "FailureTarget"}  # conditions of a Job
PREPARING_S = 1800  # the largest images from a slow registry, and volumes
NOTHING: Mapping[str, str] = {}


def pods_status(
    pods: Sequence[Any], *, of: int, has_failed: bool, unheard: Mapping[str, str] = NOTHING
) -> RuntimeStatus:
    """What became of a runtime of ``of`` pods, of which these are there, in order; ``has_failed``:
    its Job has.

    ``unheard``: why the pods of these uids are not waited for any more (``Patience``).
    """
    if not pods or pod_index(pods[0]) != 0:
        if has_failed:
            return RuntimeStatus("exited", reason=_others_end(pods, of))
        return RuntimeStatus("waiting", reason="Kubernetes: the Job has no pod yet")
    first, others = pod_status(pods[0], unheard), pods[1:]
    if not first.is_alive:
        return RuntimeStatus("exited", first.code, first.reason or _others_end(others, of))
    for pod in others:
        if mistake := _never(pod, unheard):
            return RuntimeStatus("exited", reason=f"{pod_title(pod, of)}{mistake}")
    for pod in others if first.state == "running" else []:
        if (status := pod_status(pod)).state == "waiting":
            return RuntimeStatus("waiting", reason=f"{pod_title(pod, of)}{status.reason}")
    return first


def pod_status(pod: Any, unheard: Mapping[str, str] = NOTHING) -> RuntimeStatus:
    """Of one pod."""
    statuses = pod.status.container_statuses or []
    state = statuses[0].state if statuses else None
    if pod.status.phase in ("Succeeded", "Failed"):
        ended = state.terminated if state else None
        return RuntimeStatus(
            "exited", _code(ended.exit_code) if ended else None, _end_reason(pod, ended)
        )
    if pod.status.phase == "Running":
        return RuntimeStatus("running", reason=unheard.get(pod.metadata.uid, ""))
    if mistake := _never(pod, unheard):
        return RuntimeStatus("exited", reason=mistake)
    conditions = [
        condition for condition in pod.status.conditions or [] if condition.status == "False"
    ]
    unplaced = next(
        (c.message for c in conditions if c.type == "PodScheduled" and c.message),
        "the pod is prepared",
    )
    return RuntimeStatus("waiting", reason=f"Kubernetes: {unplaced}")


def job_failed(job: Any) -> bool:
    """Whether it has, or will have once all its pods have ended (Kubernetes 1.31), which a lost
    machine never says.
    """
    return any(
        each.type in FAILED and each.status == "True" for each in job.status.conditions or []
    )


def pod_index(pod: Any) -> int:
    """Which of the pods of its Job it is."""
    return int((pod.metadata.annotations or {}).get(INDEX, "0"))


def pod_title(pod: Any, of: int) -> str:
    """What is put before words of one of several pods."""
    return f"pod {pod_index(pod) + 1} of {of}: " if of > 1 else ""


def pod_mistake(pod: Any) -> str:
    """Why its container will never start, by all that is known; empty when it will."""
    waiting = next(
        (status.state.waiting for status in pod.status.container_statuses or [] if status.state),
        None,
    )
    if waiting is None or (waiting.reason or "") in PATIENT:
        return ""
    return f"{waiting.reason}: {waiting.message or ''}".rstrip(": ")


def _never(pod: Any, unheard: Mapping[str, str]) -> str:
    """Why one that does not run yet never will; empty when it may."""
    is_given_up = pod.status.phase == "Pending" and unheard.get(pod.metadata.uid, "")
    return pod_mistake(pod) or _taken(pod) or is_given_up or ""


def _others_end(pods: Sequence[Any], of: int) -> str:
    """Why a pod beside the runtime's ended with a failure, which ends all of them; empty where none
    did.
    """
    for pod in pods:
        if pod.status.phase == "Failed":
            status = pod_status(pod)
            return f"{pod_title(pod, of)}{status.reason or f'it ended with code {status.code}'}"
    return ""


def _end_reason(pod: Any, ended: Any | None) -> str:
    """What Kubernetes says of an end beyond its code: Evicted, OOMKilled, StartError and the
    like.
    """
    if pod.status.reason:
        return f"{pod.status.reason}: {pod.status.message or ''}".rstrip(": ")
    if ended is None or ended.reason in (None, "Error", "Completed"):
        return ""
    # Of one that had begun, the message is its last lines. One that could not has no time, or that
    # of the epoch.
    has_begun = ended.started_at is not None and ended.started_at.timestamp() > 0
    return ended.reason if has_begun else f"{ended.reason}: {ended.message or ''}".rstrip(": ")


def _taken(pod: Any) -> str:
    """That it will never run because it was deleted, and by whom as Kubernetes says it (1.26);
    empty when it was not.

    It stays listed until its machine confirms that, which one that is lost does not.
    """
    if pod.status.phase != "Pending" or pod.metadata.deletion_timestamp is None:
        return ""
    told = [
        each
        for each in pod.status.conditions or []
        if each.type == "DisruptionTarget" and each.status == "True"
    ]
    words = "".join(f": {each.reason}: {each.message or ''}".rstrip(": ") for each in told)
    return f"the pod was taken away before it ran{words}"


def _code(code: int) -> int:
    """Kubernetes writes 128 + n for signal n."""
    return 128 - code if 128 < code < 160 else code


class Patience:
    """Since when pods wait as they do, by this process's clock: that of the API may be another."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, dict[tuple[str, str], float]] = {}  # by launch

    def ended(self, launch: str, pods: Sequence[Any]) -> Mapping[str, str]:
        """Why no pod of these, by its uid, is waited for any more; those of which it is, are left
        out.
        """
        now, before = self._clock(), self._since.pop(launch, {})
        waits = {(pod.metadata.uid, wait): pod for pod in pods if (wait := _wait(pod))}
        if not waits:
            return {}
        since = self._since[launch] = {key: before.get(key, now) for key in waits}
        return {
            uid: _words(wait, pod)
            for (uid, wait), pod in waits.items()
            if now - since[uid, wait] >= (PREPARING_S if wait == "prepared" else UNHEARD_S)
        }


def _wait(pod: Any) -> str:
    """For what a pod waits that has a machine; empty where it has none yet, runs or has ended."""
    if pod.status.phase == "Running":
        # It has no probe: what is not ready although it runs is on a machine of which the cluster
        # hears nothing.
        told = {condition.type: condition.status for condition in pod.status.conditions or []}
        return "heard" if told.get("Ready") == "False" else ""
    if pod.status.phase != "Pending" or not pod.spec.node_name:
        return ""
    # A machine that has taken a pod says so at once, before anything is fetched for it.
    return "prepared" if pod.status.start_time or pod.status.container_statuses else "taken"


def _words(wait: str, pod: Any) -> str:
    machine = f"machine {pod.spec.node_name}"
    if wait == "prepared":
        return f"{machine} has not prepared it in {PREPARING_S // 60} minutes"
    if wait == "taken":
        return f"{machine} is lost: it has not taken the pod in {UNHEARD_S} s"
    return f"{machine} is lost: the cluster has not heard of it for {UNHEARD_S} s"
