"""An engine over the nodes of a session: which part each has, and how those on other nodes are
started.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from gpu_runtime.engine.over_nodes.other_node import other_node_main
from gpu_runtime.engine.over_nodes.others import OtherNodes, Remote
from gpu_runtime.engine.over_nodes.part import EnginePart, network_check
from gpu_runtime.engine.over_nodes.queue_keys import keys_make
from gpu_runtime.engine.tensor_parallel import engine_needs
from gpu_runtime.errors import PlacementImpossible
from gpu_runtime.training.nodes.job import job_nodes
from gpu_runtime.training.nodes.remote_rank import RemoteRank
from tinkerscript.wire.config import SessionConfig


@contextmanager
def engine_nodes(model: str, config: SessionConfig, count: int) -> Iterator[OtherNodes | None]:
    """The parts of an engine on ``count`` nodes, for its start; none where it is on one. All have
    ended after it.

    Raises PlacementImpossible where the nodes cannot share the model's layers evenly, or are not in
    a network of their own; TrainerFailed while Slurm does not say which nodes there are.
    """
    if count == 1:
        yield None
        return
    if not engine_needs(Path(model), config).divides(count):
        raise PlacementImpossible(
            f"the heads and layers of this model cannot be shared out among {count} nodes"
        )
    nodes = job_nodes(count)
    network_check(nodes[1].address)
    folder = mkdtemp(prefix="tinkerscript-engine-", dir=os.environ.get("TINKERSCRIPT_RUNTIME_DIR"))
    parts = [
        EnginePart(model, config, node.name, rank, count, nodes[0 if rank else 1].address, folder)
        for rank, node in enumerate(nodes)
    ]

    def begin(part: EnginePart) -> Remote:
        return RemoteRank(part, other_node_main, nodes[0].name, f"engine-part-{part.rank}")

    others = OtherNodes(parts, begin)
    try:
        keys_make(Path(folder))
        yield others
    finally:
        others.close()
        shutil.rmtree(folder, ignore_errors=True)
