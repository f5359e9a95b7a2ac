"""Linear layers of an engine on a CPU, whose weights are written in place at about the speed of a
copy.

A decoding step multiplies a few rows by every weight of the model. oneDNN does that at a little
over half of the speed at which it multiplies large matrices; ``native/packed_linear.c`` at four
fifths (``tests/benchmarks/limits.py``). Its sums run in one order whatever else is in the batch, so
a row of a product has the same bits alone and among others. float32 on processors with AVX-512 or
AVX2; everything else stays as vLLM has it.
"""

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_runtime.native.compiled import SIDE, compiled, is_suited
from gpu_runtime.native.large_pages import LargePages

_pages = LargePages()


@dataclass(frozen=True)
class Job:
    """Write ``rows``, contiguous, ``[R, K]``, in panels to ``address``."""

    address: int
    rows: Tensor


class _Job(ctypes.Structure):
    """``struct job`` of the C file."""

    _fields_ = [
        *(("out", ctypes.c_void_p), ("in", ctypes.c_void_p)),
        *(("rows", ctypes.c_size_t), ("columns", ctypes.c_size_t)),
    ]


class Weight(ctypes.Structure):
    """``struct weight`` of the C files: ``[rows, columns]`` in panels."""

    _fields_ = [
        ("panels", ctypes.c_void_p),
        ("rows", ctypes.c_size_t),
        ("columns", ctypes.c_size_t),
    ]


class _Product(ctypes.Structure):
    """``struct product`` of the C files."""

    _fields_ = [
        *(("out", ctypes.c_void_p), ("weight", ctypes.POINTER(Weight))),
        *(("bias", ctypes.c_void_p), ("rows", ctypes.c_size_t)),
    ]


class PackedLinear:
    """A weight ``[N, K]`` in panels. Call it as a linear layer: ``inputs [..., K]`` to ``[...,
    N]``.
    """

    def __init__(self, library: ctypes.CDLL, shape: tuple[int, int]) -> None:
        self._rows, self._columns = shape
        self._panels = _pages.room(-(-self._rows // SIDE), self._columns, SIDE)
        self.weight = Weight(self._panels.data_ptr(), *shape)  # for as long as this object lives
        self._product = library.product

    def __call__(self, inputs: Tensor, _weight: Tensor, bias: Tensor | None) -> Tensor:
        inputs = inputs.contiguous()
        count = inputs.numel() // self._columns
        out = inputs.new_empty(*inputs.shape[:-1], self._rows)
        scratch = panels_room(inputs, count, self._columns)
        biases = bias.data_ptr() if bias is not None else None
        product = _Product(out.data_ptr(), ctypes.pointer(self.weight), biases, count)
        self._product(product, inputs.data_ptr(), scratch.data_ptr())
        return out

    def jobs(self, pieces_NK: Sequence[Tensor]) -> Iterator[Job]:
        """What makes ``pieces_NK``, one under the other, this weight. Raises ValueError for those
        of another shape.
        """
        # Where they are written nothing looks at bounds.
        shape = sum(map(len, pieces_NK)), *{piece.shape[1:] for piece in pieces_NK}
        if shape != (self._rows, (self._columns,)) or any(
            piece.dtype != torch.float32 for piece in pieces_NK
        ):
            raise ValueError(
                f"a weight of {self._rows} x {self._columns} float32 numbers is given as {shape}"
            )
        if any(len(piece) % SIDE or not piece.is_contiguous() for piece in pieces_NK):
            pieces_NK = [torch.cat(list(pieces_NK))]
        address = self._panels.data_ptr()
        for piece in pieces_NK:
            yield Job(address, piece)
            address += piece.nbytes


def panels_room(like: Tensor, rows: int, columns: int) -> Tensor:
    """Room for ``[rows, columns]`` in panels."""
    return like.new_empty(-(-rows // SIDE) * SIDE * columns)


def linear_pack(shape: tuple[int, int], dtype: torch.dtype) -> PackedLinear | None:
    """Room for a weight ``[N, K]``, to be written by ``panels_write``; None where nothing here can
    multiply by it.
    """
    if dtype != torch.float32 or not is_suited():
        return None
    found = library()
    return PackedLinear(found, shape) if found is not None else None


def panels_write(jobs: Sequence[Job]) -> None:
    """Do all of them, on as many threads as torch has. A multiplication meanwhile reads a mixture
    of old and new.
    """
    found = library()
    if jobs and found is not None:
        raw = [_Job(job.address, job.rows.data_ptr(), *job.rows.shape) for job in jobs]
        found.panels_write((_Job * len(raw))(*raw), len(raw))


def library() -> ctypes.CDLL | None:
    """``native/packed_linear.c``; None where it cannot be compiled."""
    if (found := compiled("packed_linear")) is not None:
        found.product.argtypes, found.product.restype = (
            [ctypes.POINTER(_Product), *[ctypes.c_void_p] * 2],
            None,
        )
        found.panels_write.argtypes, found.panels_write.restype = (
            [ctypes.POINTER(_Job), ctypes.c_size_t],
            None,
        )
    return found
