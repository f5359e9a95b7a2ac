"""How a rank leaves the trainer's weights for the engine: Hugging Face names, the engine's dtype.

Rank 0 does it, and on several nodes the first rank of each, for the engine there. Where the weights
are whole in that process, the engine reads them from its memory (``weights/shared_memory.py``; on a
GPU ``weights/cuda_ipc.py``); else they are written into a file (``weights/shared_file.py``).
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import deepspeed
import torch
import torch.distributed as dist
from torch import Tensor

from gpu_runtime.training.rank_spec import RankSpec
from gpu_runtime.weights.cuda_ipc import ExportBuffers, handles_write
from gpu_runtime.weights.handover_folder import handover_part
from gpu_runtime.weights.shared_file import WeightFile
from gpu_runtime.weights.shared_memory import SharedMemoryExport

from .stored_names import StoredPart


class WeightPublisher:
    """Of one rank; every rank must take part in ``publish``, with weights of the same names in the
    same order.
    """

    def __init__(self, spec: RankSpec, dtype: torch.dtype) -> None:
        self._spec, self._dtype = spec, dtype
        self._is_sharded = spec.config.zero_stage == 3
        ranks = spec.world_size // spec.config.nodes  # of each node
        self._node = spec.rank // ranks
        self._leaves = spec.rank % ranks == 0  # weights for an engine
        self._shared = SharedMemoryExport()
        self._file: WeightFile | None = None
        self._buffers = ExportBuffers()  # on a GPU: what engines may be reading

    def publish(self, folder: Path, weights: Sequence[StoredPart]) -> None:
        """In ``folder``, or this node's part of it. A collective."""
        folder = handover_part(folder, self._node)
        if self._spec.device == "cuda":
            self._publish_on_device(folder, weights)
            return
        if self._share(folder, weights):
            return
        if self._leaves and (self._file is None or self._file.folder != folder):
            shapes = {name: shape for part in weights for name, shape in part.shapes.items()}
            own = {name: part.dtype for part in weights if part.dtype for name in part.shapes}
            self._file = WeightFile(folder, shapes, self._dtype, own)
        for part in weights:
            with deepspeed.zero.GatheredParameters(part.needs, enabled=self._is_sharded):
                if self._file is not None:
                    for name, tensor in part.tensors().items():
                        self._file.write(name, tensor)
        self._barrier()

    def _share(self, folder: Path, weights: Sequence[StoredPart]) -> bool:
        """Whether the engine can take the weights from the memory of these processes."""
        if self._is_sharded or self._spec.config.lora_rank:
            return False
        shared = torch.ones(1)
        if self._leaves:
            tensors = {name: it for part in weights for name, it in part.tensors().items()}
            stay = _memories(tensors.values()) <= _memories(it for p in weights for it in p.needs)
            shared[0] = stay and self._shared.export(tensors, folder)
        if self._spec.world_size > 1:
            dist.all_reduce(shared, op=dist.ReduceOp.MIN)
        return bool(shared)

    def _publish_on_device(self, folder: Path, weights: Sequence[StoredPart]) -> None:
        left: list[tuple[str, Tensor]] = []
        for part in weights:
            with deepspeed.zero.GatheredParameters(part.needs, enabled=self._is_sharded):
                if self._leaves:
                    left += [
                        (name, self._kept(name, it, part)) for name, it in part.tensors().items()
                    ]
        if self._leaves:
            handles_write(left, folder)
        self._barrier()

    def _kept(self, name: str, made: Tensor, part: StoredPart) -> Tensor:
        """``made``, where it is a piece of a parameter that stays where it is; else its buffer."""
        tensor = made.to(part.dtype or self._dtype)
        stays = not self._is_sharded and _memories([tensor]) <= _memories(part.needs)
        keeps = stays and tensor.is_contiguous()
        return tensor if keeps else self._buffers.fill(name, tensor)

    def _barrier(self) -> None:
        if self._spec.world_size > 1:
            dist.barrier()


def _memories(tensors: Iterable[Tensor]) -> set[int]:
    """Where what they are stored in begins."""
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}
