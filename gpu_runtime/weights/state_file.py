"""The trained weights in the file of a state in which DeepSpeed's ZeRO 1 and 2 save them whole.

An engine can take them from there before the trainer has loaded: torch stores tensors as they are
in memory, so that a list of their places (shared_memory.py) is all that it needs, and nothing is
copied on the way. They are the bits that the trainer hands over once it has loaded the same state:
``state_verify`` holds that.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from . import shared_memory

# of the names in a state: the trainer's module has the Hugging Face model under this one
PREFIX = "model."
WORD = 8  # bytes: more than any weight has, and what a storage in the file is aligned to


def state_list(file: Path, folder: Path) -> None:
    """Leave in ``folder``, for an engine's take_weights, the list of where in ``file`` each weight
    is.
    """
    found, size = file.stat(), file.stat().st_size
    memory = {
        "path": str(file), "memory": f"{found.st_dev} {found.st_ino} {found.st_mtime_ns}", "bytes": size - size % WORD
    }  # fmt: skip
    specs = {}
    # Loaded so, nothing is read but what is where: torch.serialization leaves that in the storages.
    for name, tensor in _trained(torch.load(file, map_location="meta", weights_only=True)).items():
        first_byte = tensor.untyped_storage()._checkpoint_offset  # noqa: SLF001
        assert first_byte is not None, "set where a file is loaded to meta"
        specs[name] = memory | {
            "offset": first_byte // tensor.element_size() + tensor.storage_offset(),
            "shape": list(tensor.shape),
            "stride": list(tensor.stride()),
            "dtype": str(tensor.dtype).removeprefix("torch."),
        }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / shared_memory.NAME).write_text(json.dumps(specs))


def state_verify(file: Path, weights: Iterable[tuple[str, Tensor]]) -> None:
    """Raises ValueError unless ``weights``, by their Hugging Face names, are those of ``file`` to
    the bit.
    """
    saved = _trained(torch.load(file, map_location="cpu", weights_only=True, mmap=True))
    differ = [
        name for name, weight in weights if not torch.equal(weight.detach().cpu(), saved.pop(name))
    ]
    if differ or saved:
        raise ValueError(
            f"weights that were loaded are not those of the state's file: {[*differ, *saved][:3]}"
        )


def _trained(saved: dict[str, Any]) -> dict[str, Tensor]:
    names = [name for group in saved["param_shapes"] for name in group]
    return {name.removeprefix(PREFIX): saved["module"][name] for name in names}
