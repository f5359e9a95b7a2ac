"""How long a pod may wait for its machine: one that has lost its power says nothing, and is not
waited for for ever.

Kubernetes takes pods from lost machines only while others of the cluster are there (its
full-disruption mode). What it says of a pod is enough to tell: the right to read machines is one
for the whole cluster, which a launcher has not.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from console.scheduling.launchers.kubernetes_objects.manifests import UNHEARD_S

PREPARING_S = 1800  # the largest images from a slow registry, and volumes


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
