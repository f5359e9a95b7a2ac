"""The machines of a session on a Ray cluster: one placement group with a bundle on each, the
runtime's own first.

A node that is lost ends the runtime. It is the state of the nodes that is watched: actors of a
node whose raylet was killed answer for a moment. Ray would place the bundle of a lost node anew by
itself, by which two sessions can wait for each other without end: the whole group is removed, and
the next runtime asks for a new one.
"""

import asyncio
import json
import logging
import os
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_runtime.errors import NodesDiffer, TrainerFailed

from .joining import cluster_joined, ray_import
from .pods import NOTICE
from .same import versions, versions_differ

# What each further machine gives this session, as JSON of Ray's resources: of the launcher.
BUNDLE = "TINKERSCRIPT_RUNTIME_BUNDLE"
USUAL_BUNDLE = {"CPU": 1.0}  # of a cluster that is this session's alone
# For nodes that are starting, and for a cluster whose nodes other sessions have.
JOIN_S = PLACE_S = 120.0
WATCH_S, LOOK_S = 0.5, 1.0
END_S = 10.0

log = logging.getLogger(__name__)

OnNotice = Callable[[], None]


@dataclass(frozen=True)
class Node:
    """A machine of the group. ``gpus`` names its devices as CUDA_VISIBLE_DEVICES does."""

    id: str
    address: str
    gpus: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As people find it."""
        return self.address


class NodeHold:
    """The actor that holds a node's devices for a session, and tells of the node."""

    async def about(self) -> dict[str, Any]:
        """Its address, Ray's id of it, its devices, the versions of what computes there."""
        ray = ray_import()
        context = ray.get_runtime_context()
        gpus = context.get_accelerator_ids().get("GPU", [])
        return {
            "id": context.get_node_id(),
            "address": ray.util.get_node_ip_address(),
            "gpus": [str(each) for each in gpus],
            "versions": versions(),
        }

    async def noticed(self) -> None:
        """Return when this machine is about to be taken away."""
        path = os.environ.get(NOTICE)
        while path is None or not Path(path).exists():
            await asyncio.sleep(LOOK_S)


class Group:
    """A placement group over ``nodes``, watched from its making to ``close``. ``on_notice`` is
    called, from any thread, when a machine is about to be taken away.
    """

    def __init__(
        self, placed: Any, nodes: list[Node], holds: list[Any], on_notice: OnNotice
    ) -> None:
        self.nodes, self._placed, self._holds, self._on_notice = nodes, placed, holds, on_notice
        self._lost, self._closed = "", threading.Event()
        self._found = threading.Event()
        self._watching = threading.Thread(target=self._watch, name="ray-nodes", daemon=True)
        self._watching.start()

    @property
    def lost(self) -> str:
        """The name of the first node that is lost; empty while all live."""
        return self._lost

    def lost_within(self, seconds: float) -> str:
        """``lost``, as soon as it is known."""
        self._found.wait(seconds)
        return self._lost

    def verify(self) -> None:
        """Raises TrainerFailed once a node is lost."""
        if self._lost:
            raise TrainerFailed(f"node {self._lost} is lost: Ray has not heard of it any more")

    def actor(self, kind: type, node: int, **options: Any) -> Any:
        """An actor of ``kind`` on that node, which Ray does not start again when it has ended."""
        ray = ray_import()
        chosen = _within(self._placed, node) | {"max_restarts": 0, "max_task_retries": 0}
        return ray.remote(kind).options(**chosen, **options).remote(_environment(node))

    def close(self) -> None:
        """Remove the group, and with it every actor that was placed in it."""
        ray = ray_import()
        self._closed.set()
        self._watching.join(END_S)
        with suppress(ray.exceptions.RayError, ConnectionError):
            ray.util.remove_placement_group(self._placed)

    def _watch(self) -> None:
        ray = ray_import()
        notices = [hold.noticed.remote() for hold in self._holds]
        while not self._closed.wait(WATCH_S):
            try:
                alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
                told, notices = ray.wait(notices, timeout=0) if notices else ([], [])
            except (ray.exceptions.RayError, ConnectionError) as error:
                log.warning("the Ray cluster does not say how its nodes are: %s", error)
                continue
            gone = [node.name for node in self.nodes if node.id not in alive]
            if gone and not self._lost:
                log.error("node %s is lost", gone[0])
                self._lost = gone[0]
                self._found.set()
            for notice in told:
                with suppress(ray.exceptions.RayError):  # it is lost, which is found above
                    ray.get(notice)
                    log.warning("a machine of this session is taken away")
                    self._on_notice()


@asynccontextmanager
async def group_opened(
    nodes: int, gpus: int = 0, *, on_notice: OnNotice = lambda: None
) -> AsyncIterator[Group | None]:
    """The group of a session over ``nodes`` machines with ``gpus`` GPUs each; None for one machine.

    Raises TrainerFailed, with what was found, for a cluster that is too small; PlacementImpossible
    where there is none; NodesDiffer for other versions.
    """
    if nodes == 1:
        yield None
        return
    async with cluster_joined(nodes):
        group = await asyncio.to_thread(_group_make, nodes, gpus, on_notice)
        try:
            yield group
        finally:
            await asyncio.to_thread(group.close)


def _group_make(count: int, gpus: int, on_notice: OnNotice) -> Group:
    ray = ray_import()
    bundle = json.loads(os.environ.get(BUNDLE, "null")) or USUAL_BUNDLE
    bundle |= {"GPU": float(gpus)} if gpus else {}
    own = ray.get_runtime_context().get_node_id()
    _nodes_wait(count, bundle, own)
    # What this machine gives, the launcher has already taken for this process.
    address = ray.util.get_node_ip_address()
    bundles = [{f"node:{address}": 0.001}, *({**bundle} for _ in range(count - 1))]
    here = [{"ray.io/node-id": own}, *({} for _ in range(count - 1))]
    placed = ray.util.placement_group(bundles, strategy="STRICT_SPREAD", bundle_label_selector=here)
    try:
        if not placed.wait(PLACE_S):
            raise TrainerFailed(_too_small(count, bundle, f"in {PLACE_S:g} s"))
        holds = [_hold(placed, node, gpus) for node in range(count)]
        told, ours = _told(holds), versions()
        for each in told:
            if differ := versions_differ(each["address"], each["versions"], address, ours):
                raise NodesDiffer(differ)
        nodes = [Node(each["id"], each["address"], tuple(each["gpus"])) for each in told]
        return Group(placed, nodes, holds, on_notice)
    except BaseException:
        ray.util.remove_placement_group(placed)
        raise


def _told(holds: list[Any]) -> list[dict[str, Any]]:
    """What each node says of itself. Raises NodesDiffer for one that has not this runtime's code,
    TrainerFailed for one that does not answer.
    """
    ray = ray_import()
    try:
        return ray.get([hold.about.remote() for hold in holds], timeout=JOIN_S)
    except ray.exceptions.GetTimeoutError as error:
        raise TrainerFailed(f"a node of Ray started no process within {JOIN_S:g} s") from error
    except ray.exceptions.RayActorError as error:
        if not error.actor_init_failed:
            raise TrainerFailed(f"a node of Ray was lost as it started: {error}") from error
        said = str(error).strip()  # a traceback, with the address of the actor's node
        where = re.search(r"\bip=([^,)\s]+)", said)
        raise NodesDiffer(
            f"the Ray node {where[1] if where else 'of this session'} cannot run this runtime. "
            "Install the same release of TinkerScript with its runtime on each node: "
            f"{said.splitlines()[-1]}"
        ) from error


def _nodes_wait(count: int, bundle: Mapping[str, float], own: str) -> None:
    """Return once there are as many nodes that are large enough, this one among them. Raises
    TrainerFailed: there were as many before this process began, or the next job has other machines.
    """
    ray = ray_import()
    until = time.monotonic() + JOIN_S
    while True:
        fit = [node for node in ray.nodes() if node["Alive"] and _fits(node, bundle, own)]
        if len(fit) >= count:
            return
        if time.monotonic() > until:
            raise TrainerFailed(_too_small(count, bundle, f"after {JOIN_S:g} s"))
        time.sleep(WATCH_S)


def _fits(node: Mapping[str, Any], bundle: Mapping[str, float], own: str) -> bool:
    has = node["Resources"]
    return node["NodeID"] == own or all(
        has.get(name, 0.0) >= amount for name, amount in bundle.items()
    )


def _too_small(count: int, bundle: Mapping[str, float], when: str) -> str:
    """What was asked for and what each node has."""
    ray = ray_import()
    asked = ", ".join(f"{name} {amount:g}" for name, amount in bundle.items())
    found = [
        f"{node['NodeManagerAddress']} ("
        + ", ".join(f"{name} {node['Resources'].get(name, 0.0):g}" for name in bundle)
        + ")"
        for node in ray.nodes()
        if node["Alive"]
    ]
    return (
        f"nodes={count} needs {count} machines of a Ray cluster with {asked} free on each; {when} "
        f"this one has {len(found)}: {', '.join(found)}"
    )


def _hold(placed: Any, node: int, gpus: int) -> Any:
    ray = ray_import()
    devices = {"num_gpus": gpus} if node and gpus else {}
    return ray.remote(NodeHold).options(**_within(placed, node), **devices).remote()


def _within(placed: Any, node: int) -> dict[str, Any]:
    ray = ray_import()
    strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
        placement_group=placed, placement_group_bundle_index=node
    )
    return {"num_cpus": 0, "scheduling_strategy": strategy}


def _environment(node: int) -> dict[str, str | None]:
    """What an actor has of this process's variables: None takes one away."""
    given: dict[str, str | None] = {
        name: os.environ.get(name)
        for name in ("TORCHINDUCTOR_CACHE_DIR", "TINKERSCRIPT_RUNTIME_CPUS")
    }
    # Stacks are read by pid, on the runtime's node.
    name = "TINKERSCRIPT_RUNTIME_DIR"
    return given | {name: None if node else os.environ.get(name)}
