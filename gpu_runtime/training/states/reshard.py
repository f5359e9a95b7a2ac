"""A state that some number of ranks saved, as another number of ranks would have saved it. No number is changed.

What DeepSpeed 0.19 writes per rank, beside weights that are the same for every rank:

ZeRO 1, 2   all trained parameters side by side, filled up to a multiple of 2 x ranks and cut into equal parts; a part
            of the weights (float32) is stored without the filling, parts of AdamW's two moments with it
ZeRO 3      of each parameter one of ``ranks`` equal parts, the last one filled up; a rank's parts side by side, in one
            tensor for each sub-group of parameters

So each number of a rank is at a known place of some parameter, and resharding moves numbers. Steps that another number
of ranks takes sum gradients in another order: the weights then differ by the rounding of that, and by nothing else.
"""

import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

ABOUT = "trainer.json"  # how many ranks saved a state
FOLDER = "state"  # DeepSpeed's tag
ALIGNMENT = 2  # times ranks: of the tensor that ZeRO 1 and 2 cut
SUB_GROUP = 1_000_000_000  # DeepSpeed's sub_group_size: elements of a rank after which ZeRO 3 begins another sub-group
MOMENTS = ("exp_avg", "exp_avg_sq")
WHOLE_MODEL = "mp_rank_00_model_states.pt"  # of ZeRO 1 and 2: the weights as the passes use them

Sizes = Sequence[tuple[str, int]]  # parameters of a (sub-)group by name, and their elements


class CannotReshard(ValueError):
    """The state has a form that is not known here; the message says which, and how many ranks can load it."""


@contextmanager
def shards_for(folder: Path, rank: int, ranks: int, barrier: Callable[[], None]) -> Iterator[Path]:
    """A folder from which ``ranks`` ranks can load the state ``folder``: itself, or another one, there for the block.

    A collective: every rank must take part. Raises CannotReshard.
    """
    if json.loads((folder / ABOUT).read_text())["world_size"] == ranks:
        yield folder
        return
    other = folder.with_name(f"resharded-{folder.name}")
    if rank == 0:
        shutil.rmtree(other, ignore_errors=True)  # of a runtime that was killed in here
        reshard(folder, other, ranks)
    barrier()
    yield other
    barrier()
    if rank == 0:
        shutil.rmtree(other)


def reshard(source: Path, target: Path, ranks: int, *, sub_group: int = SUB_GROUP) -> None:
    """Write into ``target`` what ``ranks`` ranks would have saved where ``source`` was saved. Raises CannotReshard.

    One rank's part is in memory at a time, beside the weights that every rank has; the source is mapped.
    """
    parts, sharded = _parts(source, "optim_states"), _parts(source, "model_states")
    saved = [_load(path)["optimizer_state_dict"] for path in parts]
    model_file = sharded[0] if sharded else source / FOLDER / WHOLE_MODEL
    model = _load(model_file)
    if len(saved) != model["dp_world_size"] or model.get("frozen_param_fragments"):
        raise CannotReshard(f"this state has a form that only its own {model['dp_world_size']} ranks can load")
    by_name = {name: shape for group in model["param_shapes"] for name, shape in group.items()}
    shapes = [[(name, shape.numel()) for name, shape in group.items()] for group in model["param_shapes"]]
    new_shapes = _sub_groups(_flat(shapes), ranks, sub_group) if sharded else shapes
    model |= {
        "dp_world_size": ranks,
        "param_shapes": [{name: by_name[name] for name, _ in group} for group in new_shapes],
    }
    folder = target / FOLDER
    folder.mkdir(parents=True)
    for rank in range(ranks):
        if sharded:
            of_rank = _of_rank_sharded(saved, shapes, rank, ranks, sub_group)
        else:
            of_rank = _of_rank_cut(saved, shapes, rank, ranks)
        torch.save({"optimizer_state_dict": of_rank}, folder / _named(parts[0], rank))
        if sharded:
            torch.save(model, folder / _named(model_file, rank))
    if not sharded:
        torch.save(model, folder / model_file.name)


def _named(of_rank_0: Path, rank: int) -> str:
    return of_rank_0.name.replace("zero_pp_rank_0", f"zero_pp_rank_{rank}")


def _parts(folder: Path, kind: str) -> list[Path]:
    """The files of all ranks in their order."""
    found = (folder / FOLDER).glob(f"*zero_pp_rank_*_mp_rank_00_{kind}.pt")
    return sorted(found, key=lambda path: int(path.name.split("pp_rank_")[1].split("_")[0]))


def _load(path: Path) -> dict[str, Any]:
    # Not weights alone: DeepSpeed's own values (its stage, its loss scaler) are in there. The file is this session's.
    loaded: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=False, mmap=True)
    return loaded


def _of_rank_cut(states: Sequence[Mapping[str, Any]], shapes: Sequence[Sizes], rank: int, ranks: int) -> dict[str, Any]:
    base = states[0]["base_optimizer_state"]
    if any(any(paddings) for paddings in states[0]["param_alignment_paddings"]) or not isinstance(base, dict):
        raise CannotReshard(f"this state has a form that only its own {len(states)} ranks can load")
    weights: list[Tensor] = []
    moments: dict[int, dict[str, Any]] = {}
    paddings = []
    for index, group in enumerate(shapes):
        total = sum(size for _, size in group)
        part = _aligned(total, ALIGNMENT * ranks) // ranks
        first, last = min(total, rank * part), min(total, (rank + 1) * part)
        weights.append(_slice([state["single_partition_of_fp32_groups"][index] for state in states], first, last))
        paddings.append(part - (last - first))
        if index in base["state"]:  # not before the first step
            moments[index] = {"step": base["state"][index]["step"].clone()}
            for name in MOMENTS:
                parts = [state["base_optimizer_state"]["state"][index][name] for state in states]
                moments[index][name] = _filled(_slice(parts, first, last), part)
    return dict(states[0]) | {
        "base_optimizer_state": base | {"state": moments},
        "single_partition_of_fp32_groups": weights,
        "group_paddings": paddings,
        "partition_count": [ranks] * len(shapes),
        "param_slice_mappings": [],  # of universal checkpoints, which nothing here reads
    }


def _of_rank_sharded(
    states: Sequence[Mapping[str, Any]], shapes: Sequence[Sizes], rank: int, ranks: int, sub_group: int
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
            pieces.append(_filled(_slice(parts, first, last), part))
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


def _slice(parts: Sequence[Tensor], first: int, last: int) -> Tensor:
    """``torch.cat(parts)[first:last]``, of which only that is read."""
    return torch.cat(list(_overlaps(parts, first, last)) or [parts[0][:0]])


def _overlaps(parts: Sequence[Tensor], first: int, last: int) -> Iterator[Tensor]:
    offset = 0
    for part in parts:
        size = part.numel()
        a, b = max(first - offset, 0), min(last - offset, size)
        if b > a:
            yield part[a:b]
        offset += size


def _filled(tensor: Tensor, size: int) -> Tensor:
    """``tensor`` with zeros behind it."""
    return torch.cat([tensor, tensor.new_zeros(size - tensor.numel())])


def _aligned(size: int, multiple: int) -> int:
    return math.ceil(size / multiple) * multiple
