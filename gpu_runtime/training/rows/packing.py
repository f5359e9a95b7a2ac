"""Packs data as trees, so that a prefix that many of them share is computed once.

The data of one row become a trie over token ids. Its nodes, numbered in depth-first order, are the
row's tokens: N nodes, position = depth, and a node attends to itself and its ancestors alone. A
target of a datum is an entry (K of them): it is predicted from the hidden state of the node of its
token.

    data  a b c | a b d | a e      row  a b c d e      depth  0 1 2 2 1      parents of c, d: b;  of b, e: a

Because a node sees exactly the tokens that its data saw, at the same positions, loss and gradients
equal the unpacked computation up to rounding.

Of a model that computes no trees (``RowKind``) each datum is a tree of its own, without a fork: a
row is a few of like length, or one.

No torch in here, and no object for each token: a run of tokens without a fork is one edge of the
tree, compared and numbered by numpy. On a GPU a step waits for its rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from gpu_runtime.model_interfaces import Datum
from tinkerscript.wire.training.losses import TARGETS

# Of the longest datum of a padded row, the length that its shortest has at least: at most a third
# is computed in vain.
LIKE = 0.75


class RowKind(StrEnum):
    """How the data of a call become rows. TREES share prefixes, for models whose layers are
    attention that a tree can compute.

    Every other model reads timelines whole, by its own forward: PADDED, several of like length side
    by side, the shorter ones filled up behind their end, where a model that reads from left to
    right does not look back from; SINGLE, each by itself, where a model does.
    """

    TREES = "trees"
    PADDED = "padded"
    SINGLE = "single"

    @property
    def shares(self) -> bool:
        """Whether data of one row share their prefixes."""
        return self is RowKind.TREES


@dataclass(frozen=True)
class TreeRow:
    """One packed row. ``end_N[i]`` is one past the last node of i's subtree: j sees i iff i <= j <
    end_N[i].

    ``indices`` says which data. Entries are in ascending order of ``source_K``, the node that
    predicts, those of one node in the order of ``indices``: ``target_K`` the token id, ``datum_K``
    the index of the datum, ``flat_K`` the place among all targets of the row's data one after
    another, each flattened. Where ``kind`` shares nothing, the data's tokens stand one after
    another in the order of ``indices``. ``experts_N`` are the rows of experts that its data have of
    a node, of the last of them; None where no datum has any.
    """

    indices: tuple[int, ...]
    tokens_N: np.ndarray
    depth_N: np.ndarray
    end_N: np.ndarray
    source_K: np.ndarray
    target_K: np.ndarray
    datum_K: np.ndarray
    flat_K: np.ndarray
    kind: RowKind = RowKind.TREES
    experts_N: np.ndarray | None = None

    def entry_values(self, arrays: Iterable[np.ndarray]) -> np.ndarray:
        """Of the arrays of the row's data, each of the shape of its targets, the value of each
        entry.
        """
        return _joined(array.reshape(-1) for array in arrays)[self.flat_K]


@dataclass
class _Edge:
    """Nodes of the trie without a fork between them, and the edges that follow, by their first
    token, in the order in which they came. ``first`` is the number of its first node once they are
    numbered.
    """

    tokens: np.ndarray
    children: dict[int, "_Edge"] = field(default_factory=dict)
    first: int = 0


def pack(
    data: Sequence[Datum], token_budget: int, order: Iterable[int], kind: RowKind = RowKind.TREES
) -> list[list[int]]:
    """Split data into rows of indices, each of about ``token_budget`` nodes or one datum.

    They are taken in ``order``, and share what they share with those of their own row: the split is
    the same on every run. Where nothing is shared those of like length come together, the shortest
    first, and ``token_budget`` bounds what is computed, padding included.
    """
    if not kind.shares:
        return _padded(data, 0 if kind is RowKind.SINGLE else token_budget, order)
    rows: list[list[int]] = []
    root, size = _root(), 0
    for index in order:
        tokens = data[index].token_ids_N
        added = len(tokens) - _descend(root, tokens)[2]
        if rows and size + added <= token_budget:
            rows[-1].append(index)
        else:
            rows.append([index])
            root, size, added = _root(), 0, len(tokens)
        _insert(root, tokens)
        size += added
    return rows


def _padded(data: Sequence[Datum], token_budget: int, order: Iterable[int]) -> list[list[int]]:
    rows: list[list[int]] = []
    for index in sorted(order, key=lambda index: len(data[index].token_ids_N)):  # stable
        length = len(data[index].token_ids_N)
        fits = bool(rows) and (len(rows[-1]) + 1) * length <= token_budget
        if fits and len(data[rows[-1][0]].token_ids_N) >= LIKE * length:
            rows[-1].append(index)
        else:
            rows.append([index])
    return rows


def tokens_repeated(
    data: Sequence[Datum], token_budget: int, order: Sequence[int], kind: RowKind
) -> int:
    """How many of the tokens that rows of ``kind`` compute are prefixes that trees would compute
    once.
    """
    if kind.shares:
        return 0
    shared = sum(len(pack_row(data, row).tokens_N) for row in pack(data, token_budget, order))
    return sum(len(datum.token_ids_N) for datum in data) - shared


def prefix_order(data: Sequence[Datum]) -> list[int]:
    """Lexicographic: a datum comes next to the one with which it shares its longest prefix."""
    # Big-endian bytes compare as the numbers do.
    return sorted(
        range(len(data)), key=lambda index: (data[index].token_ids_N.astype(">u4").tobytes(), index)
    )


def pack_row(
    data: Sequence[Datum], indices: Sequence[int], kind: RowKind = RowKind.TREES
) -> TreeRow:
    """The tree of ``data[i] for i in indices``, or where ``kind`` shares nothing one of each."""
    own = [data[index].token_ids_N for index in indices]
    (tokens_N, depth_N, end_N), paths = _shared(own) if kind.shares else _apart(own)
    entries = _entries([data[index] for index in indices], indices, paths)
    experts_N = _experts([data[index] for index in indices], paths, len(tokens_N))
    return TreeRow(tuple(indices), tokens_N, depth_N, end_N, *entries, kind, experts_N)


_Nodes = tuple[np.ndarray, np.ndarray, np.ndarray]  # ``tokens_N``, ``depth_N``, ``end_N``


def _shared(own: Sequence[np.ndarray]) -> tuple[_Nodes, list[np.ndarray]]:
    """The nodes of one tree, and the numbers of those of each datum."""
    root = _root()
    for tokens in own:
        _insert(root, tokens)
    nodes = _numbered(root)
    return nodes, [_path(root, tokens) for tokens in own]


def _apart(own: Sequence[np.ndarray]) -> tuple[_Nodes, list[np.ndarray]]:
    """As ``_shared``, of data that share nothing."""
    lengths = [len(tokens) for tokens in own]
    ends = np.cumsum(lengths)
    depths = [np.arange(length) for length in lengths]
    paths = [np.arange(end - length, end) for end, length in zip(ends, lengths, strict=True)]
    return (_joined(own), _joined(depths), np.repeat(ends, lengths)), paths


def _root() -> _Edge:
    return _Edge(np.zeros(0, dtype=np.int64))


def _descend(root: _Edge, tokens: np.ndarray) -> tuple[_Edge, int, int]:
    """(edge, shared, depth): the tree has the first ``depth`` tokens, the last ``shared`` of them
    on ``edge``.
    """
    edge, shared, depth = root, 0, 0
    while depth < len(tokens) and shared == len(edge.tokens):
        child = edge.children.get(int(tokens[depth]))
        if child is None:
            break
        edge, shared = child, _common_prefix(child.tokens, tokens[depth:])
        depth += shared
    return edge, shared, depth


def _insert(root: _Edge, tokens: np.ndarray) -> None:
    edge, shared, depth = _descend(root, tokens)
    if depth == len(tokens):
        return
    if shared < len(edge.tokens):  # a fork where none was
        rest = edge.tokens[shared:]
        edge.children = {int(rest[0]): _Edge(rest, edge.children)}
        edge.tokens = edge.tokens[:shared]
    edge.children[int(tokens[depth])] = _Edge(tokens[depth:])


def _common_prefix(one: np.ndarray, other: np.ndarray) -> int:
    length = min(len(one), len(other))
    different = one[:length] != other[:length]
    return int(different.argmax()) if different.any() else length


def _numbered(root: _Edge) -> _Nodes:
    """Number the nodes in depth-first order; returns ``tokens_N``, ``depth_N``, ``end_N``."""
    # An explicit stack: a trie is as deep as a datum is long. A number closes that edge: its
    # subtree is over.
    stack: list[tuple[_Edge, int] | int] = [(edge, 0) for edge in reversed(root.children.values())]
    edges: list[tuple[_Edge, int]] = []
    ends: list[int] = []
    count = 0
    while stack:
        item = stack.pop()
        if isinstance(item, int):
            ends[item] = count
            continue
        edge, depth = item
        edge.first = count
        count += len(edge.tokens)
        stack.append(len(edges))
        edges.append(item)
        ends.append(0)
        stack.extend(
            (child, depth + len(edge.tokens)) for child in reversed(edge.children.values())
        )
    tokens_N = _joined(edge.tokens for edge, _ in edges)
    depth_N = _joined(np.arange(depth, depth + len(edge.tokens)) for edge, depth in edges)
    end_N = np.repeat(np.array(ends, dtype=np.int64), [len(edge.tokens) for edge, _ in edges])
    return tokens_N, depth_N, end_N


def _path(root: _Edge, tokens: np.ndarray) -> np.ndarray:
    """The numbers of the nodes of ``tokens``, which the tree has."""
    parts, edge, depth = [], root, 0
    while depth < len(tokens):
        edge = edge.children[int(tokens[depth])]
        length = min(len(edge.tokens), len(tokens) - depth)
        parts.append(np.arange(edge.first, edge.first + length))
        depth += length
    return _joined(parts)


def _entries(
    data: Sequence[Datum], indices: Sequence[int], paths: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(``source_K``, ``target_K``, ``datum_K``, ``flat_K``)."""
    columns: list[list[np.ndarray]] = [[], [], [], []]
    before = 0  # targets of the data before
    for datum, index, path in zip(data, indices, paths, strict=True):
        targets = datum.loss_inputs[TARGETS].reshape(-1)
        places = np.arange(len(targets)) if datum.counted is None else np.flatnonzero(datum.counted)
        by_token = max(1, len(targets) // max(1, len(path)))
        found = (
            path[places // by_token],
            targets[places],
            np.full(len(places), index),
            places + before,
        )
        for column, values in zip(columns, found, strict=True):
            column.append(values)
        before += len(targets)
    source_K, target_K, datum_K, flat_K = map(_joined, columns)
    order = np.argsort(source_K, kind="stable")
    return source_K[order], target_K[order], datum_K[order], flat_K[order]


def _experts(data: Sequence[Datum], paths: Sequence[np.ndarray], nodes: int) -> np.ndarray | None:
    if all(datum.experts is None for datum in data):
        return None
    experts_N = np.full(nodes, None, dtype=object)
    for datum, path in zip(data, paths, strict=True):
        if datum.experts is not None:
            has = np.array([each is not None for each in datum.experts], dtype=bool)
            experts_N[path[has]] = datum.experts[has]
    return experts_N


def _joined(parts: Iterable[np.ndarray]) -> np.ndarray:
    found = list(parts)
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
