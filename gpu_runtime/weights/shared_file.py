"""The file through which weights pass that cannot be exported in place (``shared_memory.py``).

It is safetensors in memory that both processes map, written in place, step after step: mapping and
touching fresh pages costs more than copying into old ones. So a hand-over moves the bytes twice,
into this file and out of it into the engine's own layout. Trainer and engine take turns (the
learner awaits one, then the other); the file never outlives the runtime that made it.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

NAME = "weights.safetensors"
# safetensors' names of the types that a trainer hands over.
DTYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}
ALIGNMENT = 64  # bytes: what the engine's kernels like, and more than any type needs


class WeightFile:
    """``folder/weights.safetensors``, laid out in the order of ``shapes``: neighbours there lie
    side by side. Of ``dtype``, but for those that have one in ``own``.
    """

    def __init__(
        self,
        folder: Path,
        shapes: Mapping[str, Sequence[int]],
        dtype: torch.dtype,
        own: Mapping[str, torch.dtype] | None = None,
    ) -> None:
        kinds = {name: (own or {}).get(name, dtype) for name in shapes}
        header, _, size_bytes = header_make(shapes, kinds)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / NAME
        path.unlink(missing_ok=True)  # a process that still maps an earlier file keeps it
        with path.open("wb") as file:
            file.write(header)
            file.truncate(len(header) + size_bytes)
        self.folder = folder
        self._tensors = tensors_map(path)

    def write(self, name: str, tensor: Tensor) -> None:
        """Write one tensor at its offset in the file's type. Raises KeyError, RuntimeError on
        another shape.
        """
        target = self._tensors[name]
        if target.shape != tensor.shape:
            raise RuntimeError(
                f"{name} has shape {tuple(tensor.shape)}; the file was made for "
                f"{tuple(target.shape)}"
            )
        target.copy_(tensor.detach())


def header_make(
    shapes: Mapping[str, Sequence[int]],
    kinds: Mapping[str, torch.dtype],
    firsts: Mapping[str, int] | None = None,
) -> tuple[bytes, list[str], int]:
    """What stands before the tensors of a safetensors file, their order, and their bytes in all.
    ``firsts`` go into its metadata. Format: huggingface.co/docs/safetensors, "Format".
    """
    header: dict[str, Any] = {"__metadata__": {"firsts": json.dumps(firsts)}} if firsts else {}
    # the widest first, so that each begins at a multiple of its width
    order, end = sorted(shapes, key=lambda name: -kinds[name].itemsize), 0
    for name in order:
        first, end = end, end + math.prod(shapes[name]) * kinds[name].itemsize
        header[name] = {
            "dtype": DTYPES[kinds[name]],
            "shape": list(shapes[name]),
            "data_offsets": [first, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text, order, end


def header_read(path: Path) -> tuple[int, dict[str, Any]]:
    """Where the tensors of a safetensors file begin, and its entry of each."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return 8 + length, header


def tensors_map(path: Path) -> dict[str, Tensor]:
    """Every tensor of a safetensors file as a view of the mapped file: later writes to the file
    show in it.
    """
    begin, header = header_read(path)
    size = path.stat().st_size
    mapped = torch.from_file(str(path), shared=True, size=size, dtype=torch.uint8)
    types = {name: dtype for dtype, name in DTYPES.items()}
    tensors = {}
    for name, entry in header.items():
        first, last = (begin + offset for offset in entry["data_offsets"])
        tensors[name] = mapped[first:last].view(types[entry["dtype"]]).view(entry["shape"])
    return tensors
