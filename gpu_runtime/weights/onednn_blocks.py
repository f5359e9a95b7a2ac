"""float32 weights in the blocks in which oneDNN multiplies on AVX-512, written in place at about the speed of a copy.

oneDNN packs a weight ``[N, K]`` as ``[N / 64, K, 64]``, into memory of its own, and takes three to four times as long
as a copy. Here it packs each weight once; the memory is looked at, and where its layout is that one, each later weight
is written right into it by ``onednn_blocks.c``, which is compiled for this processor when it is first needed.
"""

import ctypes
import functools
import logging
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

ROWS = 64
COMPILE_TIMEOUT_S = 60
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """Write ``rows``, contiguous, ``[a multiple of 64, K]``, in blocks to ``address``."""

    address: int
    rows: Tensor


class _Job(ctypes.Structure):
    """``struct job`` of blocks.c."""

    _fields_ = [
        *(("out", ctypes.c_void_p), ("in", ctypes.c_void_p)),
        *(("blocks", ctypes.c_size_t), ("columns", ctypes.c_size_t)),
    ]


@dataclass(frozen=True)
class PackedWeight:
    """A weight ``[N, K]`` in oneDNN's memory. Call it as a linear layer: ``inputs [..., K]`` to ``[..., N]``."""

    opaque: Tensor
    address: int

    def __call__(self, inputs: Tensor, _weight: Tensor, bias: Tensor | None) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(inputs, self.opaque, bias, "none", [], "")  # noqa: SLF001 - an operator of torch's

    def jobs(self, pieces_NK: Sequence[Tensor]) -> Iterator[Job]:
        """What makes ``pieces_NK``, one under the other, this weight."""
        address = self.address
        for piece in pieces_NK:
            yield Job(address, piece)
            address += piece.nbytes


def weight_pack(weight_NK: Tensor) -> PackedWeight | None:
    """Let oneDNN pack it. None where the blocks are others than ours, or nothing here can write them."""
    rows = len(weight_NK)
    if weight_NK.dtype != torch.float32 or rows % ROWS or not torch.backends.mkldnn.is_available() or not kernel():
        return None
    opaque = torch.ops.mkldnn._reorder_linear_weight(weight_NK, None)  # noqa: SLF001 - an operator of torch's
    if torch.ops.mkldnn._nbytes(opaque) != weight_NK.nbytes:  # noqa: SLF001 - an operator of torch's
        return None
    address = torch.ops.mkldnn.data_ptr(opaque)
    memory = torch.frombuffer((ctypes.c_char * weight_NK.nbytes).from_address(address), dtype=torch.float32)
    expected = weight_NK.view(rows // ROWS, ROWS, -1).transpose(1, 2)
    return PackedWeight(opaque, address) if torch.equal(memory.view(expected.shape), expected) else None


def blocks_write(jobs: Sequence[Job]) -> None:
    """Do all of them, on as many threads as torch has. A multiplication meanwhile reads a mixture of old and new."""
    if jobs:
        raw = [_Job(job.address, job.rows.data_ptr(), len(job.rows) // ROWS, job.rows.shape[1]) for job in jobs]
        kernel()((_Job * len(raw))(*raw), len(raw))


@functools.cache
def kernel() -> Any:
    """blocks_write of blocks.c, as ctypes has it; None, with a line in the log, where there is no compiler."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "blocks.so"
        command = [os.environ.get("CC", "cc"), "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"]
        try:
            subprocess.run(
                [*command, str(Path(__file__).with_suffix(".c")), "-o", str(library)],
                check=True, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            log.warning("hand-overs are slower than they could be: %s", getattr(error, "stderr", None) or error)
            return None
        function = ctypes.CDLL(str(library)).blocks_write
    function.argtypes, function.restype = [ctypes.POINTER(_Job), ctypes.c_size_t], None
    return function
