"""The actor that holds a node's devices for a session, and tells of the node."""

import asyncio
import os
from pathlib import Path
from typing import Any

from .joining import ray_import
from .pods import NOTICE
from .same import versions

LOOK_S = 1.0


class NodeHold:
    """Of one node of a group."""

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
