"""A value for each token of samples, put together from packed rows, on whichever rank each row was
computed.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gpu_runtime.interfaces import Sample

from .packing import TreeRow


class TokenValues:
    """``values_T`` of each of ``samples``, whose datum is that of ``loop_data.py``; 0 where nothing
    was put.
    """

    def __init__(self, samples: Sequence[Sample], device: torch.device) -> None:
        self._lengths = [len(sample.token_ids_T) for sample in samples]
        self._starts = np.array([0, *itertools.accumulate(self._lengths)])
        self._flat = torch.zeros(int(self._starts[-1]), device=device)

    def put(self, tree: TreeRow, values_K: Tensor) -> None:
        """The values of the row's entries: each at the token that it predicts, the one after its
        source.
        """
        places_K = self._starts[tree.datum_K] + tree.depth_N[tree.source_K] + 1
        self._flat[torch.from_numpy(places_K).to(self._flat.device)] = values_K.to(self._flat.dtype)

    def lists(self) -> list[list[float]]:
        """Those of all ranks, the same on each: a collective, which every rank must call. Call it
        once.
        """
        if dist.is_initialized() and dist.get_world_size() > 1:
            dist.all_reduce(self._flat)
        return [part.tolist() for part in self._flat.split(self._lengths)]
