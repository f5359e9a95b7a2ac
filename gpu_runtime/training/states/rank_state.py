"""The state of a model that ranks train under DeepSpeed: each rank writes what its optimizer has,
and reads what it needs of what any number of ranks wrote. No number is changed on the way.

Steps that another number of ranks takes sum gradients in another order: the weights then differ by
the rounding of that, and by nothing else.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gpu_runtime.training.rank_spec import RankSpec

from .folder import WEIGHTS, gradient_name, part_name
from .saved import MOMENTS, SavedState, about_write, tensors_write

Barrier = Callable[[], None]  # a collective: every rank must take part
Advance = Callable[[], None]  # called after each tensor


@dataclass(frozen=True)
class _Part:
    """What this rank's optimizer has of a parameter: elements ``first`` to ``last`` of it as one
    row, which are ``at`` in ``flat``, the optimizer's own tensor of its group ``group``.
    """

    name: str
    first: int
    last: int
    flat: Tensor
    at: slice
    group: int


class RankState:
    """Of one rank. ``zero`` is DeepSpeed's optimizer around AdamW, ``model`` what it trains."""

    def __init__(self, zero: Any, model: nn.Module, spec: RankSpec) -> None:
        self._zero, self._spec = zero, spec
        self._is_sharded = spec.config.zero_stage == 3
        self._trained = {
            name: weight for name, weight in model.named_parameters() if weight.requires_grad
        }
        names = {id(weight): name for name, weight in self._trained.items()}
        self._parts = list(self._sharded(names) if self._is_sharded else self._cut(names))

    def _cut(self, names: dict[int, str]) -> Iterator[_Part]:
        """ZeRO 1 and 2: the parameters side by side, of which each rank has an equal part."""
        zero = self._zero
        is_plain = hasattr(zero, "single_partition_of_fp32_groups")
        groups = zero.round_robin_bit16_groups if is_plain else zero.bf16_groups
        flats = (
            zero.single_partition_of_fp32_groups if is_plain else zero.fp32_groups_flat_partition
        )
        for number, (group, flat) in enumerate(zip(groups, flats, strict=True)):
            begin, offset = self._spec.rank * flat.numel(), 0
            for weight in group:
                size = weight.numel()
                a, b = max(begin, offset), min(begin + flat.numel(), offset + size)
                if a < b:
                    at = slice(a - begin, b - begin)
                    yield _Part(names[id(weight)], a - offset, b - offset, flat, at, number)
                offset += size

    def _sharded(self, names: dict[int, str]) -> Iterator[_Part]:
        """ZeRO 3: of each parameter an equal part, the last one filled up."""
        zero = self._zero
        flats = zero.fp32_partitioned_groups_flat
        for number, (group, flat) in enumerate(zip(zero.fp16_groups, flats, strict=True)):
            offset = 0
            for weight in group:
                size = weight.ds_tensor.numel()
                first = self._spec.rank * size
                last = min(weight.ds_numel, first + size)
                if first < last:
                    at = slice(offset, offset + last - first)
                    yield _Part(names[id(weight)], first, last, flat, at, number)
                offset += size

    def save(self, folder: Path, barrier: Barrier, advance: Advance) -> None:
        """Write weights, moments and step. A collective."""
        whole = {name: weight for name, weight in self._trained.items() if not self._is_sharded}
        is_exact = all(weight.dtype == torch.float32 for weight in whole.values())
        tensors, firsts, step = {}, {}, 0
        for part in self._parts:
            kinds = {} if whole and is_exact else {"weight": part.flat}
            if state := self._zero.optimizer.state.get(part.flat):
                step = int(state["step"])
                kinds |= {moment: state[moment] for moment in MOMENTS}
            for kind, row in kinds.items():
                tensors[key := f"{kind}.{part.name}"] = row[part.at]
                firsts[key] = part.first
        tensors_write(folder / part_name(self._spec.rank), tensors, firsts, advance)
        if self._spec.rank == 0 and whole:
            tensors_write(folder / WEIGHTS, whole, advance=advance)
        barrier()
        if self._spec.rank == 0:
            rank = self._spec.config.lora_rank
            about_write(folder, {"rank": rank} if rank else None, step, self._spec.world_size)
        barrier()

    def gradient_save(self, folder: Path, gradients: Mapping[int, Tensor]) -> None:
        """Write what this rank has of a gradient that waits, in the layout of the optimizer's
        tensors, by the number of their group. Before ``save``.
        """
        rows = {part.name: gradients[part.group][part.at] for part in self._parts}
        firsts = {part.name: part.first for part in self._parts}
        tensors_write(folder / gradient_name(self._spec.rank), rows, firsts)

    def gradient_load(self, saved: SavedState, gradients: Mapping[int, Tensor]) -> None:
        """Put what ``gradient_save`` wrote, of any number of ranks, into ``gradients``, which are
        zero.
        """
        for part in self._parts:
            if (key := f"gradient.{part.name}") in saved:
                row = saved.row(key, part.last, part.first)
                gradients[part.group][part.at].copy_(row)

    @torch.no_grad()
    def load(self, saved: SavedState, advance: Advance, *, with_moments: bool = True) -> None:
        """Become what ``save`` wrote, without its moments as at the first step. A collective.
        Raises StateRefused.
        """
        state, moves = self._zero.optimizer.state, with_moments and saved.step
        for flat in {id(part.flat): part.flat for part in self._parts}.values():
            state.pop(flat, None)
            if moves:
                step = torch.tensor(float(saved.step), device=flat.device)
                state[flat] = {"step": step} | {each: torch.zeros_like(flat) for each in MOMENTS}
        for part in self._parts:
            row = saved.weight_row(part.name, part.last, part.first)
            part.flat.data[part.at].copy_(row)
            if moves:
                for moment, row in saved.moments(part.name, part.last, part.first):
                    state[part.flat][moment][part.at].copy_(row)
            advance()
        if self._is_sharded:
            self._parts_hand_over()
            return
        for name, weight in self._trained.items():
            key = name if name in saved else f"weight.{name}"
            weight.data.copy_(saved.row(key, weight.numel()).view(weight.shape))
            advance()

    def _parts_hand_over(self) -> None:
        """Give the passes the optimizer's weights, as DeepSpeed does after a step of ZeRO 3."""
        zero = self._zero
        zero.checkpoint_event_prologue()
        for index, flat in enumerate(zero.fp32_partitioned_groups_flat):
            used = zero.fp16_partitioned_groups_flat[index]
            used.data.copy_(flat.data)
            parts = zero.fp16_partitioned_groups[index]
            for part, values in zip(parts, zero.unflatten(used, parts), strict=True):
                part.data = values.data
        zero.checkpoint_event_epilogue()
