"""The trained weights in the file of a state that has them whole (training/states/folder.py).

An engine can take them from there before the trainer has loaded: safetensors has tensors as they
are in memory, so that a list of their places (shared_memory.py) is all that it needs, and nothing
is copied on the way. The trainer takes the same file.
"""

import json
from pathlib import Path

from . import shared_memory
from .shared_file import DTYPES


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
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        header = json.loads(opened.read(length))
    types, specs = {name: dtype for dtype, name in DTYPES.items()}, {}
    for name, entry in header.items():
        dtype, shape = types[entry["dtype"]], entry["shape"]
        strides: list[int] = []
        elements = 1
        for size in reversed(shape):
            strides.insert(0, elements)
            elements *= size
        specs[name] = memory | {
            "offset": (8 + length + entry["data_offsets"][0]) // dtype.itemsize,
            "shape": shape,
            "stride": strides,
            "dtype": str(dtype).removeprefix("torch."),
        }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / shared_memory.NAME).write_text(json.dumps(specs))
