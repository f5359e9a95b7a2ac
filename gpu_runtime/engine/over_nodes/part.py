"""One engine over several nodes: the part of it that each node has, and what its processes read of
that.

vLLM's own way (its options ``nnodes`` and ``node_rank``), with three things of ours in it: its
workers meet by a file in a folder that the nodes share, and not at a port; its queues between nodes
have keys (queue_keys.py); and everything listens on the address alone that leads to the other
nodes.
"""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_runtime.errors import PlacementImpossible
from gpu_runtime.processes.network import address_toward, interface_toward
from tinkerscript.wire.config import SessionConfig

if TYPE_CHECKING:
    from vllm.config import VllmConfig

WORKER = "gpu_runtime.engine.over_nodes.worker.NodeWorker"
EXECUTOR = "gpu_runtime.engine.executors.NodesExecutor"
RENDEZVOUS = "engine"


@dataclass(frozen=True)
class EnginePart:
    """The part on ``node``, number ``rank`` of ``count``; ``peer`` is the address of another node.

    ``folder`` is the nodes' own, which this session's user alone can read.
    """

    model_path: str
    config: SessionConfig
    node: str
    rank: int
    count: int
    peer: str
    folder: str


def part_options(part: EnginePart) -> dict[str, Any]:
    """What vLLM is told of it: one process on each node, over which every layer is shared out."""
    return {
        # vLLM takes several nodes with this name alone; ours (EXECUTOR) is put in its place.
        "distributed_executor_backend": "mp",
        "tensor_parallel_size": part.count,
        "nnodes": part.count,
        "node_rank": part.rank,
        "worker_cls": WORKER,
        "additional_config": {"folder": part.folder, "peer": part.peer},
    }


def part_of(config: "VllmConfig") -> tuple[Path, str]:
    """The nodes' folder and the address of another node, in a process of vLLM's."""
    given = config.additional_config
    assert isinstance(given, Mapping), "as part_options says"
    return Path(given["folder"]), given["peer"]


def network_check(peer: str) -> str:
    """This node's own address toward ``peer``.

    Raises PlacementImpossible where that is one of the internet: what the groups exchange has no
    keys.
    """
    own = address_toward(peer)
    if ipaddress.ip_address(own.partition("%")[0]).is_global:
        raise PlacementImpossible(
            "the engine would be spread over nodes that reach one another at addresses of the "
            f"internet ({own}); what"
            " its parts exchange is not encrypted, and needs a network of the cluster's own"
        )
    return own


def network_choose(peer: str) -> None:
    """Let this process listen on its address toward ``peer`` alone, in vLLM's queues and torch's
    groups.

    Raises what ``network_check`` does.
    """
    os.environ.update(VLLM_HOST_IP=network_check(peer), GLOO_SOCKET_IFNAME=interface_toward(peer))
