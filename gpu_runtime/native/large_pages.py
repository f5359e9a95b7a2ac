"""Room for weights that every step reads from end to end, which come to lie in pages of 2 MiB where
Linux has them.

With pages of 4 KiB the products of a decoding step wait for the look-up of addresses: about a tenth
of their time on a virtual machine (``tests/benchmarks/limits.py``). To find and to clear large
pages takes several times as long as to write the weights, so it is done beside the work, once a
session has its first tokens.
"""

import contextlib
import math
import mmap
import time
import weakref
from threading import Lock, Thread

import torch
from torch import Tensor

PAGE = 2 << 20
# that smaller rooms share, so that pages are not left half full at each of their ends
REGION = 32 * PAGE
LINE = 64  # bytes that a processor reads at once
# MADV_COLLAPSE of Linux 6.1, which Python's mmap has no name for: make large pages of these, now
COLLAPSE = 25
AFTER_S = 20.0


class LargePages:
    """Regions of memory, each given back when no tensor of it is left."""

    def __init__(self, after_s: float = AFTER_S) -> None:
        self._region, self._used, self._taking = torch.empty(0, dtype=torch.uint8), 0, Lock()
        self._after_s = after_s

    def room(self, *shape: int) -> Tensor:
        """``shape`` float32 numbers, all 0, at a multiple of 64 bytes. Memory is taken when it is
        first written.
        """
        size = 4 * math.prod(shape)
        with self._taking:
            if self._used + size > len(self._region):
                self._region, self._used = self._region_take(max(REGION, size)), 0
            found = self._region[self._used : self._used + size]
            self._used += math.ceil(size / LINE) * LINE
        return found.view(torch.float32).view(shape)

    def _region_take(self, size: int) -> Tensor:
        taken = mmap.mmap(
            -1, math.ceil(size / PAGE + 1) * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        )
        Thread(target=_collapse, args=(weakref.ref(taken), self._after_s), daemon=True).start()
        region = torch.frombuffer(taken, dtype=torch.uint8)
        return region[-region.data_ptr() % PAGE :]


def _collapse(region: weakref.ref[mmap.mmap], after_s: float) -> None:
    """Reads and writes there go on meanwhile. Where no large page is free, or nothing was written,
    pages stay small.
    """
    time.sleep(after_s)
    taken = region()
    if taken is None:
        return
    with contextlib.suppress(OSError):
        taken.madvise(COLLAPSE)
        return
    # an older kernel, which does it in its own time, or none at all
    with contextlib.suppress(OSError, AttributeError):
        taken.madvise(mmap.MADV_HUGEPAGE)
