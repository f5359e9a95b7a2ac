"""How a rank leaves the trainer's weights for the engine: Hugging Face names, the engine's dtype.

Rank 0 does it, and of an engine over several nodes the first rank of each node, for the part of the
engine there. Where the weights are whole in that process, the engine reads them from its memory
(``weights/shared_memory.py``; on a GPU ``weights/cuda_ipc.py``); else they are written into a file
(``weights/shared_file.py``).
"""

from collections.abc import Sequence
from pathlib import Path

import deepspeed
import torch
import torch.distributed as dist
from torch import Tensor

from gpu_runtime.training.lora import PlainWeight
from gpu_runtime.training.rank_spec import RankSpec
from gpu_runtime.weights.cuda_ipc import ExportBuffers, handles_write
from gpu_runtime.weights.handover_folder import handover_part
from gpu_runtime.weights.shared_file import WeightFile
from gpu_runtime.weights.shared_memory import SharedMemoryExport


class WeightPublisher:
    """Of one rank; every rank must take part in ``publish``, with weights of the same names in the
    same order.
    """

    def __init__(self, spec: RankSpec, dtype: torch.dtype) -> None:
        self._spec, self._dtype = spec, dtype
        self._is_sharded = spec.config.zero_stage == 3
        ranks = spec.world_size // spec.engine_nodes  # of each node
        self._node = spec.rank // ranks
        self._leaves = spec.rank % ranks == 0  # weights for an engine
        self._shared = SharedMemoryExport()
        self._file: WeightFile | None = None
        self._buffers = ExportBuffers()  # on a GPU: what engines may be reading

    def publish(self, folder: Path, weights: Sequence[PlainWeight]) -> None:
        """In ``folder``, or this node's part of it. A collective."""
        folder = handover_part(folder, self._node)
        if self._spec.device == "cuda":
            self._publish_on_device(folder, weights)
            return
        if self._share(folder, weights):
            return
        if self._leaves and (self._file is None or self._file.folder != folder):
            shapes = {
                name: getattr(whole[0], "ds_shape", whole[0].shape) for name, whole, _ in weights
            }
            self._file = WeightFile(folder, shapes, self._dtype)
        for name, whole, weight in weights:
            with deepspeed.zero.GatheredParameters(whole, enabled=self._is_sharded):
                if self._file is not None:
                    self._file.write(name, weight())
        self._barrier()

    def _share(self, folder: Path, weights: Sequence[PlainWeight]) -> bool:
        """Whether the engine can take the weights from the memory of these processes."""
        if self._is_sharded or self._spec.config.lora_rank:
            return False
        shared = torch.ones(1)
        if self._leaves:
            shared[0] = self._shared.export(
                {name: weight().detach() for name, _, weight in weights}, folder
            )
        if self._spec.world_size > 1:
            dist.all_reduce(shared, op=dist.ReduceOp.MIN)
        return bool(shared)

    def _publish_on_device(self, folder: Path, weights: Sequence[PlainWeight]) -> None:
        left: list[tuple[str, Tensor]] = []
        for name, whole, weight in weights:
            with deepspeed.zero.GatheredParameters(whole, enabled=self._is_sharded):
                if self._leaves:
                    tensor = weight().detach().to(self._dtype)
                    stays = not self._is_sharded and tensor.data_ptr() == whole[0].data_ptr()
                    keeps = stays and tensor.is_contiguous()
                    left.append((name, tensor if keeps else self._buffers.fill(name, tensor)))
        if self._leaves:
            handles_write(left, folder)
        self._barrier()

    def _barrier(self) -> None:
        if self._spec.world_size > 1:
            dist.barrier()
