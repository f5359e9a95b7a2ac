"""A value for each target of data, put together from packed rows, on whichever rank each row was
computed.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gpu_runtime.model_interfaces import Datum

from .packing import TreeRow


class TokenValues:
    """``values_N`` of each of ``data``, whose tokens have a target each; 0 where nothing was put."""

    def __init__(self, data: Sequence[Datum], device: torch.device) -> None:
        self._lengths = [len(datum.token_ids_N) for datum in data]
        self._starts = np.array([0, *itertools.accumulate(self._lengths)])
        self._flat = torch.zeros(int(self._starts[-1]), device=device)

    def put(self, tree: TreeRow, values_K: Tensor) -> None:
        """The values of the row's entries: each at its source."""
        places_K = self._starts[tree.datum_K] + tree.depth_N[tree.source_K]
        self._flat[torch.from_numpy(places_K).to(self._flat.device)] = values_K.to(self._flat.dtype)

    def arrays(self) -> list[np.ndarray]:
        """Those of all ranks, the same on each: a collective, which every rank must call. Call it
        once.
        """
        if dist.is_initialized() and dist.get_world_size() > 1:
            dist.all_reduce(self._flat)
        return np.split(self._flat.cpu().numpy(), self._starts[1:-1])
