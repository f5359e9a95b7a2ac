"""A state that some number of ranks saved, as another number of ranks would have saved it. No
number is changed.

What DeepSpeed 0.19 writes per rank, beside weights that are the same for every rank:

ZeRO 1, 2   all trained parameters side by side, filled up to a multiple of 2 x ranks and cut into equal parts; a part
            of the weights (float32) is stored without the filling, parts of AdamW's two moments with it
ZeRO 3      of each parameter one of ``ranks`` equal parts, the last one filled up; a rank's parts side by side, in one
            tensor for each sub-group of parameters

So each number of a rank is at a known place of some parameter, and resharding moves numbers. Every
rank moves its own, side by side. Steps that another number of ranks takes sum gradients in another
order: the weights then differ by the rounding of that, and by nothing else.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpu_runtime.training.rank_spec import RankSpec

from .reading import state_load
from .resharded_folder import FOLDER, WHOLE_MODEL, resharded_path, saved_by

ALIGNMENT = 2  # times ranks: of the tensor that ZeRO 1 and 2 cut
CHUNK = 1 << 26  # elements that are moved between two reports of progress: 256 MiB
MOMENTS = ("exp_avg", "exp_avg_sq")

Sizes = Sequence[tuple[str, int]]  # parameters of a (sub-)group by name, and their elements
Advance = Callable[[], None]


class CannotReshard(ValueError):
    """The state has a form that is not known here; the message says which, and how many ranks can
    load it.
    """


def shards_for(
    folder: Path, spec: RankSpec, sub_group: int, barrier: Callable[[], None], advance: Advance
) -> Path:
    """From where the ranks of ``spec`` can load the state ``folder``: itself, or
    ``resharded_path``, whose folder must be there.

    A collective: every rank must take part. ``sub_group`` and ``advance`` as for ``reshard``.
    Raises CannotReshard.
    """
    if saved_by(folder) == spec.world_size:
        return folder
    reshard(
        folder,
        resharded_path(folder),
        spec.rank,
        spec.world_size,
        sub_group=sub_group,
        advance=advance,
    )
    barrier()
    return resharded_path(folder)


def reshard(
    source: Path, target: Path, rank: int, ranks: int, *, sub_group: int, advance: Advance
) -> None:
    """Write into ``target`` what this one of ``ranks`` ranks would have saved where ``source`` was
    saved.

    ``sub_group`` is DeepSpeed's sub_group_size: elements of a rank after which ZeRO 3 begins
    another sub-group. The rank's part is in memory beside the weights that every rank has; the
    source is mapped. ``advance`` is called after each piece. Raises CannotReshard.
    """
    parts, sharded = _parts(source, "optim_states"), _parts(source, "model_states")
    saved = [_load(path)["optimizer_state_dict"] for path in parts]
    model_file = sharded[0] if sharded else source / FOLDER / WHOLE_MODEL
    model = _load(model_file)
    if len(saved) != model["dp_world_size"] or model.get("frozen_param_fragments"):
        raise CannotReshard(
            f"this state has a form that only its own {model['dp_world_size']} ranks can load"
        )
    by_name = {name: shape for group in model["param_shapes"] for name, shape in group.items()}
    shapes = [
        [(name, shape.numel()) for name, shape in group.items()] for group in model["param_shapes"]
    ]
    new_shapes = _sub_groups(_flat(shapes), ranks, sub_group) if sharded else shapes
    model |= {
        "dp_world_size": ranks,
        "param_shapes": [{name: by_name[name] for name, _ in group} for group in new_shapes],
    }
    if sharded:
        of_rank = _of_rank_sharded(saved, shapes, rank, ranks, sub_group, advance)
    else:
        of_rank = _of_rank_cut(saved, shapes, rank, ranks, advance)
    torch.save({"optimizer_state_dict": of_rank}, target / FOLDER / _named(parts[0], rank))
    advance()
    if sharded:
        torch.save(model, target / FOLDER / _named(model_file, rank))
    elif rank == 0:
        torch.save(model, target / FOLDER / model_file.name)
    advance()


def _named(of_rank_0: Path, rank: int) -> str:
    return of_rank_0.name.replace("zero_pp_rank_0", f"zero_pp_rank_{rank}")


def _parts(folder: Path, kind: str) -> list[Path]:
    """The files of all ranks in their order."""
    found = (folder / FOLDER).glob(f"*zero_pp_rank_*_mp_rank_00_{kind}.pt")
    return sorted(found, key=lambda path: int(path.name.split("pp_rank_")[1].split("_")[0]))


def _load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = state_load(path, map_location="cpu", mmap=True)
    return loaded


def _of_rank_cut(
    states: Sequence[Mapping[str, Any]],
    shapes: Sequence[Sizes],
    rank: int,
    ranks: int,
    advance: Advance,
) -> dict[str, Any]:
    base = states[0]["base_optimizer_state"]
    if any(any(paddings) for paddings in states[0]["param_alignment_paddings"]) or not isinstance(
        base, dict
    ):
        raise CannotReshard(f"this state has a form that only its own {len(states)} ranks can load")
    weights: list[Tensor] = []
    moments: dict[int, dict[str, Any]] = {}
    paddings = []
    for index, group in enumerate(shapes):
        total = sum(size for _, size in group)
        part = _aligned(total, ALIGNMENT * ranks) // ranks
        first, last = min(total, rank * part), min(total, (rank + 1) * part)
        saved = [state["single_partition_of_fp32_groups"][index] for state in states]
        weights.append(_slice(saved, first, last, last - first, advance))
        paddings.append(part - (last - first))
        if index in base["state"]:  # not before the first step
            moments[index] = {"step": base["state"][index]["step"].clone()}
            for name in MOMENTS:
                parts = [state["base_optimizer_state"]["state"][index][name] for state in states]
                moments[index][name] = _slice(parts, first, last, part, advance)
    return dict(states[0]) | {
        "base_optimizer_state": base | {"state": moments},
        "single_partition_of_fp32_groups": weights,
        "group_paddings": paddings,
        "partition_count": [ranks] * len(shapes),
        "param_slice_mappings": [],  # of universal checkpoints, which nothing here reads
    }


def _of_rank_sharded(
    states: Sequence[Mapping[str, Any]],
    shapes: Sequence[Sizes],
    rank: int,
    ranks: int,
    sub_group: int,
    advance: Advance,
) -> dict[str, Any]:
    places, groups = _places(shapes, len(states)), _sub_groups(_flat(shapes), ranks, sub_group)

    def gather(index: int, tensors: Sequence[Sequence[Tensor]]) -> Tensor:
        """The new sub-group ``index`` of this rank, out of ``tensors[old rank][old sub-group]``."""
        pieces = []
        for name, size in groups[index]:
            old_group, offset = places[name]
            old_part, part = math.ceil(size / len(states)), math.ceil(size / ranks)
            parts = [of_rank[old_group][offset : offset + old_part] for of_rank in tensors]
            first, last = min(size, rank * part), min(size, (rank + 1) * part)
            pieces.append(_slice(parts, first, last, part, advance))
        return torch.cat(pieces)

    base = states[0]["optimizer_state_dict"]
    moments: dict[int, dict[str, Any]] = {}
    for index in range(len(groups)) if base["state"] else ():
        moments[index] = {"step": base["state"][0]["step"].clone()}
        for name in MOMENTS:
            of_ranks = [state["optimizer_state_dict"]["state"] for state in states]
            tensors = [[each[old][name] for old in range(len(shapes))] for each in of_ranks]
            moments[index][name] = gather(index, tensors)
    weights = [state["fp32_flat_groups"] for state in states]
    settings = [each | {"params": list(range(len(groups)))} for each in base["param_groups"]]
    return dict(states[0]) | {
        "optimizer_state_dict": base | {"state": moments, "param_groups": settings},
        "fp32_flat_groups": [gather(index, weights) for index in range(len(groups))],
        "partition_count": ranks,
    }


def _flat(shapes: Sequence[Sizes]) -> list[tuple[str, int]]:
    return [each for group in shapes for each in group]


def _sub_groups(sizes: Sizes, ranks: int, sub_group: int) -> list[list[tuple[str, int]]]:
    """As DeepSpeed forms them: a sub-group ends with the parameter that fills it."""
    groups: list[list[tuple[str, int]]] = [[]]
    held = 0
    for name, size in sizes:
        if held >= sub_group:
            groups.append([])
            held = 0
        groups[-1].append((name, size))
        held += math.ceil(size / ranks)
    return groups


def _places(shapes: Sequence[Sizes], ranks: int) -> dict[str, tuple[int, int]]:
    """Of each parameter its sub-group, and where its part begins in a rank's tensor."""
    found = {}
    for index, group in enumerate(shapes):
        offset = 0
        for name, size in group:
            found[name] = index, offset
            offset += math.ceil(size / ranks)
    return found


def _slice(parts: Sequence[Tensor], first: int, last: int, size: int, advance: Advance) -> Tensor:
    """``torch.cat(parts)[first:last]``, of which only that is read, and zeros behind it up to
    ``size`` elements.
    """
    whole, at = parts[0].new_zeros(size), 0
    for part in _overlaps(parts, first, last):
        for chunk in part.split(CHUNK):
            whole[at : at + chunk.numel()] = chunk
            at += chunk.numel()
            advance()
    return whole


def _overlaps(parts: Sequence[Tensor], first: int, last: int) -> Iterator[Tensor]:
    offset = 0
    for part in parts:
        size = part.numel()
        a, b = max(first - offset, 0), min(last - offset, size)
        if b > a:
            yield part[a:b]
        offset += size


def _aligned(size: int, multiple: int) -> int:
    return math.ceil(size / multiple) * multiple
