"""A packed row on the device: what its forward pass needs, and the tensors of its loss."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gpu_runtime.journal.token_values import set_bits, sets_number
from gpu_runtime.model_interfaces import Datum
from gpu_runtime.training.cpu.tree_blocks import Tree, ends_joined, tree_of, trees_joined
from gpu_runtime.training.tree_flex import FlexTree, flex_tree_of

from .packing import TreeRow


@dataclass(frozen=True)
class Timelines:
    """The data of a row side by side, ``ids_BL``, filled up behind their ends; node n is
    ``place_N[n]`` of them, one after another.
    """

    ids_BL: Tensor
    place_N: Tensor

    @classmethod
    def of(cls, row: TreeRow, device: torch.device) -> "Timelines":
        """Those of a row that shares nothing."""
        starts_B = np.flatnonzero(row.depth_N == 0)
        lengths_B = np.diff(starts_B, append=len(row.depth_N))
        place_N = np.repeat(np.arange(len(starts_B)) * lengths_B.max(), lengths_B) + row.depth_N
        ids = np.zeros((len(starts_B), lengths_B.max()), dtype=np.int64)
        ids.reshape(-1)[place_N] = row.tokens_N
        return cls(_on(ids, device), _on(place_N, device))


@dataclass(frozen=True)
class RowTensors:
    """A TreeRow on the device. ``visible`` is which token may attend to which, as the device's
    attention takes it, or where nothing is shared what the model's own forward reads.

    R rows of logits, of the nodes ``source_R``, serve the K entries: entry k is predicted by row
    ``place_K[k]``, None where each has its own. ``temperature_K`` is None where all are 1: logits
    are then taken as they are. ``allowed_K`` is None where no token was sampled under a grammar,
    else the row of ``allowed_SB`` (bits of ids, lowest first) that it was chosen from; -1 is the
    last row, of every id. ``experts_NW`` are the bytes of the rows of experts that nodes have, -1
    of a node without one; None where none has.
    """

    row: TreeRow
    data: Sequence[Datum]
    tokens_N: Tensor
    depth_N: Tensor
    visible: Tree | FlexTree | Timelines
    source_R: Tensor
    place_K: Tensor | None
    target_K: Tensor
    datum_K: Tensor
    temperature_K: Tensor | None = None
    allowed_K: Tensor | None = None
    allowed_SB: Tensor | None = None
    experts_NW: Tensor | None = None

    @property
    def narrowed_K(self) -> Tensor | None:
        """Which tokens were sampled under a grammar; None where none was."""
        return None if self.allowed_K is None else self.allowed_K >= 0

    @property
    def entries(self) -> tuple[Tensor | None, ...]:
        """What the forward pass reads of an entry: its place, target, temperature, set of ids."""
        return self.place_K, self.target_K, self.temperature_K, self.allowed_K

    def cuts(self, firsts_R: Sequence[int]) -> list[int]:
        """Where the entries are cut so that each part has its rows of logits, which begin at
        ``firsts_R``.
        """
        if self.place_K is None:
            return list(firsts_R[1:])
        return torch.searchsorted(
            self.place_K, torch.tensor(firsts_R[1:], device=self.place_K.device)
        ).tolist()

    def loss_input(self, key: str) -> Tensor:
        """``[K]`` float32: the tensor of that name of the row's data."""
        values = self.row.entry_values(
            self.data[index].loss_inputs[key] for index in self.row.indices
        )
        return torch.from_numpy(values).to(self.datum_K.device, torch.float32)

    def has(self, key: str) -> bool:
        """Whether the data have a tensor of that name."""
        return key in self.data[0].loss_inputs

    @classmethod
    def of(cls, row: TreeRow, data: Sequence[Datum], device: torch.device) -> "RowTensors":
        """The row of ``data`` on ``device``."""
        source_R, place_K = _logits_rows(row, data)
        own = [data[index] for index in row.indices]
        temperatures = _given(row, [datum.temperatures for datum in own])
        allowed = _given(row, [datum.allowed_sets for datum in own])
        numbers, sets = sets_number([] if allowed is None else allowed.tolist())
        if temperatures is not None and (temperatures == 1.0).all():
            temperatures = None
        return cls(
            row=row,
            data=data,
            tokens_N=_on(row.tokens_N, device),
            depth_N=_on(row.depth_N, device),
            visible=_visible(row, device),
            source_R=_on(source_R, device),
            place_K=None if place_K is None else _on(place_K, device),
            target_K=_on(row.target_K, device),
            datum_K=_on(row.datum_K, device),
            temperature_K=None if temperatures is None else _on(temperatures, device),
            allowed_K=torch.tensor(numbers, device=device) if sets else None,
            allowed_SB=sets_tensor(sets, device) if sets else None,
            experts_NW=_experts(row.experts_N, device),
        )


def _visible(row: TreeRow, device: torch.device) -> Tree | FlexTree | Timelines:
    if not row.kind.shares:
        return Timelines.of(row, device)
    end_N = _on(row.end_N, device)
    return flex_tree_of(end_N) if device.type == "cuda" else tree_of(end_N)


def visible_joined(parts: Sequence[Tree | FlexTree | Timelines]) -> Tree | FlexTree:
    """Which token of several trees, one after another in one row, may attend to which."""
    trees = [part for part in parts if isinstance(part, Tree)]
    if len(trees) == len(parts):
        return trees_joined(trees)
    ends = [part.end_N for part in parts if isinstance(part, FlexTree)]
    assert len(ends) == len(parts), "trees alone are joined"
    return flex_tree_of(ends_joined(ends))


def _experts(experts_N: np.ndarray | None, device: torch.device) -> Tensor | None:
    if experts_N is None or all(each is None for each in experts_N):
        return None
    has = np.flatnonzero([each is not None for each in experts_N])
    rows = np.frombuffer(b"".join(experts_N[has]), dtype=np.uint8).reshape(len(has), -1)
    found = np.full((len(experts_N), rows.shape[1]), -1, dtype=np.int16)
    found[has] = rows
    return _on(found, device)


def sets_tensor(sets: Sequence[bytes], device: torch.device) -> Tensor:
    """``allowed_SB``: the bits of each set of journal/token_values.py as bytes, and of every id
    in the last row.
    """
    rows = [torch.frombuffer(bytearray(set_bits(each)), dtype=torch.uint8) for each in sets]
    return torch.stack([*rows, torch.full_like(rows[0], 255)]).to(device)


def _given(row: TreeRow, arrays: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Of each entry, or None where no datum has it: all data of a call have it or none."""
    given = [array for array in arrays if array is not None]
    return row.entry_values(given) if given else None


def _logits_rows(row: TreeRow, data: Sequence[Datum]) -> tuple[np.ndarray, np.ndarray | None]:
    """(``source_R``, ``place_K``): a node's logits once for all of its targets.

    Where each node has one target, or the data say which of their targets count, so that few nodes
    have two of those, each has logits of its own, in the order in which a managed step has always
    summed their gradients.
    """
    if any(data[index].counted is not None for index in row.indices):
        return row.source_K, None
    source_R, place_K = np.unique(row.source_K, return_inverse=True)
    each_has_one = len(source_R) == len(row.source_K)
    return (row.source_K, None) if each_has_one else (source_R, place_K)


def _on(values: np.ndarray, device: torch.device) -> Tensor:
    return torch.from_numpy(values).to(device)
