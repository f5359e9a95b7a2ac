"""What the trainer left in the hand-over folder, as tensors of this process: the engine's side."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from . import shared_file, shared_memory


class MappedWeights:
    """Maps each piece of memory once, because touching fresh pages costs more than reading them."""

    def __init__(self) -> None:
        self._identity, self._tensors = "", dict[str, Tensor]()

    def of(self, folder: Path) -> dict[str, Tensor]:
        """The weights that were published last, without a copy: they change with the trainer's next
        step.
        """
        listing, file = folder / shared_memory.NAME, folder / shared_file.NAME
        if is_shared := listing.exists():
            identity = listing.read_text()
        else:
            found = file.stat()
            identity = f"{found.st_dev} {found.st_ino} {found.st_size}"
        if identity != self._identity:
            of_memory, of_file = shared_memory.tensors_map, shared_file.tensors_map
            self._tensors = of_memory(json.loads(identity)) if is_shared else of_file(file)
            self._identity = identity
        return self._tensors


def folder_files(folder: Path) -> list[Path]:
    """Where a Hugging Face folder has its weights; none where it has them in no safetensors."""
    return sorted(folder.glob("*.safetensors"))


def folder_tensors(folder: Path, dtype: torch.dtype) -> dict[str, Tensor]:
    """The weights of a Hugging Face folder in ``dtype``. Raises FileNotFoundError where it has none
    in safetensors.
    """
    if not (files := folder_files(folder)):
        raise FileNotFoundError(f"{folder.name} has no weights in safetensors")
    return {name: tensor.to(dtype) for file in files for name, tensor in load_file(file).items()}
