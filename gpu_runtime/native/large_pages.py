"""Room for weights that every step reads from end to end, in pages of 2 MiB where Linux has them to give.

With pages of 4 KiB the products of a decoding step wait for the look-up of addresses: 9 to 14 % of their time on a
virtual machine (``tests/benchmarks/limits.py``). Large pages are asked for here alone and not for all memory: they have
to be found and cleared whenever room is taken, so what is used once becomes slower by them.
"""

import contextlib
import math
import mmap
from threading import Lock

import torch
from torch import Tensor

PAGE = 2 << 20
REGION = 32 * PAGE  # that smaller rooms share, so that pages are not left half full at each of their ends
LINE = 64  # bytes that a processor reads at once


class LargePages:
    """Regions of memory, each given back when no tensor of it is left."""

    def __init__(self) -> None:
        self._region, self._used, self._taking = torch.empty(0, dtype=torch.uint8), 0, Lock()

    def room(self, *shape: int) -> Tensor:
        """``shape`` float32 numbers, all 0, at a multiple of 64 bytes. Memory is taken when it is first written."""
        size = 4 * math.prod(shape)
        with self._taking:
            if self._used + size > len(self._region):
                self._region, self._used = region_take(max(REGION, size)), 0
            found = self._region[self._used : self._used + size]
            self._used += math.ceil(size / LINE) * LINE
        return found.view(torch.float32).view(shape)


def region_take(size: int) -> Tensor:
    """At least ``size`` bytes from the start of a large page."""
    taken = mmap.mmap(-1, math.ceil(size / PAGE + 1) * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel that has none
            taken.madvise(mmap.MADV_HUGEPAGE)
    region = torch.frombuffer(taken, dtype=torch.uint8)
    return region[-region.data_ptr() % PAGE :]
