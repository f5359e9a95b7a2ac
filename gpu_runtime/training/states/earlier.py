"""States in the form of releases before this one, as DeepSpeed 0.19 saves them: read until the next
release, never written.

A pickle that names anything but what DeepSpeed saves is not run, but refused: a state comes from
the object store, and unpickling calls whatever the file names.

ZeRO 1, 2   all trained parameters side by side, filled up to a multiple of 2 x ranks and cut into equal parts, one
            for each rank; a part of the weights (float32) may be stored without the filling
ZeRO 3      of each parameter one of ``ranks`` equal parts, the last one filled up; a rank's parts side by side, in
            one tensor for each sub-group of parameters
"""

import math
import pickle
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from deepspeed.runtime.fp16.loss_scaler import LossScaler
from deepspeed.runtime.zero.config import ZeroStageEnum
from deepspeed.utils.tensor_fragment import fragment_address
from safetensors.torch import load_file
from torch import Tensor
from torch.serialization import safe_globals

from .folder import StateRefused

# Beside tensors and Python's own values: the stage, where parts of parameters lie, the (constant)
# scale of the loss.
SAVED = [ZeroStageEnum, fragment_address, LossScaler]
FOLDER = "state"  # DeepSpeed's tag
PREFIX = "model."  # of the names: the trainer's module has the Hugging Face model under this one

Piece = tuple[int, Tensor]  # where it begins in its tensor as one row, and its elements


def earlier_state(folder: Path) -> tuple[int, dict[str, list[Piece]]]:
    """The step of a state and its pieces, by the keys of ``SavedState``. Raises StateRefused."""
    saved = [state_load(path)["optimizer_state_dict"] for path in _parts(folder, "optim_states")]
    models = _parts(folder, "model_states")
    if not saved or not models:
        raise StateRefused(f"there is no saved state at {folder.name!r}")
    model = state_load(models[0])
    is_sharded = "fp32_flat_groups" in saved[0]
    if len(saved) != model["dp_world_size"] or any(map(any, _alignments(saved))):
        raise StateRefused(
            f"this state has a form that only its own {model['dp_world_size']} ranks and the "
            "release that saved it can load"
        )
    shapes = [
        [(name.removeprefix(PREFIX), shape.numel()) for name, shape in group.items()]
        for group in model["param_shapes"]
    ]
    found: dict[str, list[Piece]] = {}
    step = 0
    for rank, state in enumerate(saved):
        base = state["optimizer_state_dict" if is_sharded else "base_optimizer_state"]["state"]
        weights = state["fp32_flat_groups" if is_sharded else "single_partition_of_fp32_groups"]
        places = _sharded if is_sharded else _cut
        for index, group in enumerate(shapes):
            rows: dict[str, Tensor] = {"weight": weights[index]}
            if index in base:  # not before the first step
                step = int(base[index]["step"])
                rows |= {name: base[index][name] for name in ("exp_avg", "exp_avg_sq")}
            for name, first, at in places(group, rank, len(saved)):
                for kind, row in rows.items():
                    found.setdefault(f"{kind}.{name}", []).append((first, row[at]))
    for number, mean in _reference(folder).items():
        found[f"reference.{number}"] = [(0, mean.view(-1))]
    return step, found


def _reference(folder: Path) -> dict[str, Tensor]:
    """A moving reference by the numbers of its weights, whole."""
    if (folder / "reference.pt").is_file():
        means = state_load(folder / "reference.pt")
        return {str(number): mean for number, mean in enumerate(means)}
    sharded = folder / "reference" / "weights.safetensors"
    return load_file(sharded) if sharded.is_file() else {}


def state_load(path: Path) -> Any:
    """A file of DeepSpeed's, mapped. Raises StateRefused."""
    try:
        with safe_globals([*SAVED, (_stage, "__builtin__.getattr"), (_stage, "builtins.getattr")]):
            return torch.load(path, weights_only=True, map_location="cpu", mmap=True)
    except pickle.UnpicklingError as error:
        # torch's other words are on how to run it all the same.
        named = next(
            (line for line in str(error).splitlines() if "GLOBAL" in line), "It cannot be read."
        )
        raise StateRefused(f"{path.name} was not loaded: it is no state's. {named}") from error


def _parts(folder: Path, kind: str) -> list[Path]:
    """The files of all ranks in their order; of ZeRO 1 and 2 one of the whole model."""

    def rank(path: Path) -> int:
        return int(path.name.partition("pp_rank_")[2].partition("_")[0] or 0)

    return sorted((folder / FOLDER).glob(f"*mp_rank_00_{kind}.pt"), key=rank)


def _alignments(saved: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
    for state in saved:
        yield from state.get("param_alignment_paddings") or ()


def _cut(
    group: Sequence[tuple[str, int]], rank: int, ranks: int
) -> Iterator[tuple[str, int, slice]]:
    """What a rank has of each parameter: its name, the first element, and where in its tensor."""
    total = sum(size for _, size in group)
    part = math.ceil(total / (2 * ranks)) * 2
    begin, offset = rank * part, 0
    for name, size in group:
        a, b = max(begin, offset), min(begin + part, offset + size)
        if a < b:
            yield name, a - offset, slice(a - begin, b - begin)
        offset += size


def _sharded(
    group: Sequence[tuple[str, int]], rank: int, ranks: int
) -> Iterator[tuple[str, int, slice]]:
    offset = 0
    for name, size in group:
        part = math.ceil(size / ranks)
        if (own := min(part, size - rank * part)) > 0:
            yield name, rank * part, slice(offset, offset + own)
        offset += part


def _stage(named: type, member: str) -> Any:
    """What Python before 3.11.4 pickles an enum by, as getattr: here of the stage alone."""
    if named is not ZeroStageEnum:
        raise pickle.UnpicklingError(f"GLOBAL getattr of {named!r}")
    members: Any = ZeroStageEnum
    return members[member]
