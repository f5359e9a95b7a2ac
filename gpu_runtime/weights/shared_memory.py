"""Weights of a trainer on a CPU, read by the engine from the trainer's own memory: no copy on the
way.

The trainer moves what its weights are stored in to shared memory, once (torch swaps the memory
behind a storage, so every view of it follows, DeepSpeed's too), and writes a list of where each
weight is. The engine maps that memory and packs from it. Trainer and engine take turns: the learner
awaits the engine before the next step may change a weight.

Only whole weights can be exported so: not the shards of ZeRO 3, nor sums with adapters. For those:
``shared_file.py``.

The trained weights in the file of a state that has them whole (training/states/folder.py) an engine
can take from there before the trainer has loaded: safetensors has tensors as they are in memory, so
that a list of their places is all that it needs. The trainer takes the same file.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .shared_file import DTYPES, header_read

NAME = "weights.json"
SHARED_MEMORY = Path("/dev/shm")  # where torch makes it
MARGIN_BYTES = 64 << 20  # stays free for other programs


class SharedMemoryExport:
    """The trainer's side. Call ``export`` after each step: the memory stays the same, so it costs
    next to nothing.
    """

    def __init__(self) -> None:
        # address of a storage in shared memory: its file
        self._files: dict[int, dict[str, Any]] = {}

    def export(self, weights: Mapping[str, Tensor], folder: Path) -> bool:
        """Write the list into ``folder``. False, and no list, where shared memory has no room for
        the weights.
        """
        storages = {
            tensor.untyped_storage().data_ptr(): tensor.untyped_storage()
            for tensor in weights.values()
        }
        new = [storage for address, storage in storages.items() if address not in self._files]
        if sum(storage.nbytes() for storage in new) + MARGIN_BYTES > _room_bytes():
            (folder / NAME).unlink(missing_ok=True)
            return False
        for storage in new:
            descriptor, _ = storage._share_fd_cpu_()
            path = f"/proc/{os.getpid()}/fd/{descriptor}"
            memory = os.readlink(path)  # its own name, which no other memory ever gets
            self._files[storage.data_ptr()] = {
                "path": path,
                "memory": memory,
                "bytes": storage.nbytes(),
            }
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"{NAME}.partial"
        partial.write_text(
            json.dumps({name: self._spec(tensor) for name, tensor in weights.items()})
        )
        partial.replace(folder / NAME)
        return True

    def _spec(self, tensor: Tensor) -> dict[str, Any]:
        return {
            **self._files[tensor.untyped_storage().data_ptr()],
            "offset": tensor.storage_offset(),
            "shape": list(tensor.shape),
            "stride": list(tensor.stride()),
            "dtype": str(tensor.dtype).removeprefix("torch."),
        }


def state_list(file: Path, folder: Path) -> None:
    """Leave in ``folder``, for an engine's take_weights, the list of where in ``file`` each weight
    is.
    """
    found = file.stat()
    memory = {
        "path": str(file),
        "memory": f"{found.st_dev} {found.st_ino} {found.st_mtime_ns}",
        "bytes": found.st_size,
    }
    begin, header = header_read(file)
    types, specs = {name: dtype for dtype, name in DTYPES.items()}, {}
    for name, entry in header.items():
        dtype, shape = types[entry["dtype"]], entry["shape"]
        strides: list[int] = []
        elements = 1
        for size in reversed(shape):
            strides.insert(0, elements)
            elements *= size
        specs[name] = memory | {
            "offset": (begin + entry["data_offsets"][0]) // dtype.itemsize,
            "shape": shape,
            "stride": strides,
            "dtype": str(dtype).removeprefix("torch."),
        }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_text(json.dumps(specs))


def tensors_map(specs: Mapping[str, Mapping[str, Any]]) -> dict[str, Tensor]:
    """The exported weights as views of the trainer's memory. Raises RuntimeError once the trainer
    has ended.
    """
    memories: dict[str, Tensor] = {}
    tensors = {}
    for name, spec in specs.items():
        path = spec["path"]
        if path not in memories:
            memories[path] = torch.from_file(
                path, shared=True, size=spec["bytes"], dtype=torch.uint8
            )
        dtype, memory = getattr(torch, spec["dtype"]), memories[path]
        whole = memory[: memory.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
        tensors[name] = whole.as_strided(spec["shape"], spec["stride"], spec["offset"])
    return tensors


def _room_bytes() -> int:
    if not SHARED_MEMORY.is_dir():
        return 0
    found = os.statvfs(SHARED_MEMORY)
    return found.f_bavail * found.f_frsize
