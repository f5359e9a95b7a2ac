"""Reads and writes the files of a state (``folder.py``), one tensor after the other."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from gpu_runtime.model_interfaces import state_describe
from gpu_runtime.weights.shared_file import header_make

from .folder import ABOUT, GRADIENTS, PARTS, REFERENCES, WEIGHTS, StateRefused

MOMENTS = ("exp_avg", "exp_avg_sq")


def tensors_write(
    path: Path,
    tensors: Mapping[str, Tensor],
    firsts: Mapping[str, int] | None = None,
    advance: Callable[[], None] = lambda: None,
) -> None:
    """Write a safetensors file without a copy of all ``tensors``; ``advance`` is called after each.

    Raises OSError where the disk is full.
    """
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    kinds = {name: tensor.dtype for name, tensor in tensors.items()}
    header, order, _ = header_make(shapes, kinds, firsts)
    with path.open("wb") as file:
        file.write(header)
        for name in order:
            row = tensors[name].detach().to("cpu").contiguous().view(-1)
            file.write(row.view(torch.uint8).numpy().data)
            advance()


def about_write(folder: Path, lora: Mapping[str, Any] | None, step: int, ranks: int = 1) -> None:
    """Write what makes the folder a state, once every file of it is there."""
    about = {"lora": lora, "step": step, "ranks": ranks}
    (folder / ABOUT).write_text(json.dumps(about))


class SavedState:
    """What is in a state's folder, by key: NAME of a weight as the passes use it, ``weight.NAME``
    in float32, ``exp_avg.NAME``, ``exp_avg_sq.NAME``, ``gradient.NAME``,
    ``reference.NUMBER``. Files are mapped, not read.

    Raises StateRefused for a folder that is no state, or has not all of one.
    """

    def __init__(self, folder: Path) -> None:
        self.step: int
        # of each key: where a piece begins in its tensor as one row, and its elements
        self._pieces: dict[str, list[tuple[int, Tensor]]] = {}
        if not (folder / ABOUT).is_file():
            # imports DeepSpeed, which the process of a Tinker client's models has not
            from .earlier import earlier_state

            self.step, self._pieces = earlier_state(folder)
            return
        about = state_describe(folder)
        parts = sorted(folder.glob(PARTS))
        if about["step"] and len(parts) != about.get("ranks", 1):
            raise StateRefused(
                f"{folder.name} was saved by {about.get('ranks', 1)} ranks, and {len(parts)} of "
                "their files are there"
            )
        self.step = about["step"]
        self._put(folder / WEIGHTS)
        for part in parts:
            self._put(part)
        for part in folder.glob(GRADIENTS):
            self._put(part, "gradient.")
        for part in folder.glob(REFERENCES):
            self._put(part, "reference.")

    def _put(self, path: Path, prefix: str = "") -> None:
        if not path.is_file():
            return
        file = safe_open(path, "pt")
        firsts = json.loads((file.metadata() or {}).get("firsts", "{}"))
        for key in file.keys():  # noqa: SIM118 - no mapping
            self._pieces.setdefault(prefix + key, []).append(
                (firsts.get(key, 0), file.get_tensor(key).view(-1))
            )

    def __contains__(self, key: str) -> bool:
        return key in self._pieces

    @property
    def has_gradient(self) -> bool:
        """Whether one waited for its step."""
        return any(key.startswith("gradient.") for key in self._pieces)

    def row(self, key: str, last: int, first: int = 0) -> Tensor:
        """Elements ``first`` to ``last`` of the tensor as one row, from whichever files have them.
        Raises StateRefused.
        """
        found, at = [], first
        for begin, piece in sorted(self._pieces.get(key, ()), key=lambda each: each[0]):
            end = min(last, begin + piece.numel())
            if begin <= at < end:
                found.append(piece[at - begin : end - begin])
                at = end
        if at != last:
            raise StateRefused(f"the state has not all of {key}: {at} of {last} elements")
        return found[0] if len(found) == 1 else torch.cat(found)

    def weight_row(self, name: str, last: int, first: int = 0) -> Tensor:
        """As ``row``, of a weight in float32 where the state has it so."""
        key = f"weight.{name}"
        return self.row(key if key in self else name, last, first)

    def moments(self, name: str, last: int, first: int = 0) -> Iterable[tuple[str, Tensor]]:
        """AdamW's two moments of a weight, as ``row``."""
        return [(each, self.row(f"{each}.{name}", last, first)) for each in MOMENTS]
