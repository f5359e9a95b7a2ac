"""Packs samples as trees, so that a prefix that many samples share is computed once.

The samples of one row become a trie over token ids. Its nodes, numbered in depth-first order, are the row's tokens: N
nodes, position = depth, and a node attends to itself and its ancestors alone. A trained token of a sample is an entry
(K of them): it is predicted from the hidden state of its parent node.

    samples  a b c x | a b d x | a e x      row  a b c d e      depth  0 1 2 2 1      parents of c, d: b;  of b, e: a

Because a node sees exactly the tokens that its samples saw, at the same positions, loss and gradients equal the
unpacked computation up to rounding.

No torch in here, and no object for each token: a run of tokens without a fork is one edge of the tree, compared and
numbered by numpy. On a GPU a step waits for its rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpu_runtime.interfaces import Sample
from gpu_runtime.journal.allowed_tokens import ALL


@dataclass
class TreeRow:
    """One packed row. ``end_N[i]`` is one past the last node of i's subtree: j sees i iff i <= j < end_N[i].

    Entries: ``source_K`` the node that predicts, ``target_K`` the token id, ``sample_K`` the index in ``samples``,
    ``temperature_K`` that of sampling, ``allowed_K`` which of ``allowed_sets`` it was chosen from, -1 for every id.
    """

    tokens_N: list[int] = field(default_factory=list)
    depth_N: list[int] = field(default_factory=list)
    end_N: list[int] = field(default_factory=list)
    source_K: list[int] = field(default_factory=list)
    target_K: list[int] = field(default_factory=list)
    old_K: list[float] = field(default_factory=list)
    sample_K: list[int] = field(default_factory=list)
    temperature_K: list[float] = field(default_factory=list)
    allowed_K: list[int] = field(default_factory=list)
    allowed_sets: list[bytes] = field(default_factory=list)


@dataclass
class _Edge:
    """Nodes of the trie without a fork between them, and the edges that follow, by their first token, in the order in
    which they came. ``first`` is the number of its first node once they are numbered."""

    tokens: np.ndarray
    children: dict[int, "_Edge"] = field(default_factory=dict)
    first: int = 0


def pack_row(samples: Sequence[Sample], indices: Sequence[int]) -> TreeRow:
    """The tree of ``samples[i] for i in indices``. A sample's first token is never trained: nothing predicts it."""
    root = _root()
    nodes = [_nodes(samples[index]) for index in indices]
    for tokens in nodes:
        _insert(root, tokens)
    row = TreeRow()
    _number(root, row)
    paths = [_path(root, tokens) for tokens in nodes]
    _entries([samples[index] for index in indices], indices, paths, row)
    return row


def entry_advantages(row: TreeRow, samples: Sequence[Sample]) -> list[float]:
    """``advantages_K``: the advantage of the token that each entry trains, which stands right after its source."""
    sources = zip(row.source_K, row.sample_K, strict=True)
    return [samples[sample].advantage_at(row.depth_N[node] + 1) for node, sample in sources]


def entry_before(row: TreeRow, samples: Sequence[Sample]) -> list[float] | None:
    """``before_K``: of the token that each entry trains, its log-probability before the step; None if it was not
    computed."""
    found = []
    for node, sample in zip(row.source_K, row.sample_K, strict=True):
        before_T = samples[sample].before_T
        if before_T is None:
            return None
        found.append(before_T[row.depth_N[node] + 1])
    return found


def pack(samples: Sequence[Sample], token_budget: int) -> list[list[int]]:
    """Split a batch into rows of sample indices, each of about ``token_budget`` nodes or one sample.

    Samples of a group stay together as long as they fit, in their given order: the split is the same on every run.
    """
    rows: list[list[int]] = []
    root, size = _root(), 0
    for index, sample in sorted(enumerate(samples), key=lambda pair: (pair[1].group, pair[0])):
        tokens = _nodes(sample)
        added = len(tokens) - _descend(root, tokens)[2]
        if rows and size + added <= token_budget:
            rows[-1].append(index)
        else:
            rows.append([index])
            root, size, added = _root(), 0, len(tokens)
        _insert(root, tokens)
        size += added
    return rows


def _nodes(sample: Sample) -> np.ndarray:
    """The tokens that are nodes: nothing is predicted from the last one."""
    return np.array(sample.token_ids_T[:-1], dtype=np.int64)


def _root() -> _Edge:
    return _Edge(np.zeros(0, dtype=np.int64))


def _descend(root: _Edge, tokens: np.ndarray) -> tuple[_Edge, int, int]:
    """(edge, shared, depth): the tree has the first ``depth`` tokens, the last ``shared`` of them on ``edge``."""
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


def _number(root: _Edge, row: TreeRow) -> None:
    """Number the nodes in depth-first order and write them to ``row``."""
    # An explicit stack: a trie is as deep as a sample is long. A number closes that edge: its subtree is over.
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
        stack.extend((child, depth + len(edge.tokens)) for child in reversed(edge.children.values()))
    for (edge, depth), end in zip(edges, ends, strict=True):
        length = len(edge.tokens)
        row.tokens_N += edge.tokens.tolist()
        row.depth_N += range(depth, depth + length)
        row.end_N += [end] * length


def _path(root: _Edge, tokens: np.ndarray) -> np.ndarray:
    """The numbers of the nodes of ``tokens``, which the tree has."""
    parts, edge, depth = [], root, 0
    while depth < len(tokens):
        edge = edge.children[int(tokens[depth])]
        length = min(len(edge.tokens), len(tokens) - depth)
        parts.append(np.arange(edge.first, edge.first + length))
        depth += length
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _entries(samples: Sequence[Sample], indices: Sequence[int], paths: Sequence[np.ndarray], row: TreeRow) -> None:
    """Write the trained tokens to ``row``: by the node that predicts them, of one node in the order of the samples."""
    numbers: dict[bytes, int] = {}
    columns = [list(_sample_entries(*each, numbers)) for each in zip(samples, indices, paths, strict=True)]
    joined = [np.concatenate(column) for column in zip(*columns, strict=True)]
    order = np.argsort(joined[0], kind="stable")
    sorted_lists = [column[order].tolist() for column in joined]
    row.source_K, row.target_K, row.old_K, row.sample_K, row.temperature_K, row.allowed_K = sorted_lists
    row.allowed_sets = list(numbers)


def _sample_entries(sample: Sample, index: int, path: np.ndarray, numbers: dict[bytes, int]) -> Iterator[np.ndarray]:
    trained = np.flatnonzero(np.array(sample.mask_T[1:])) + 1
    yield path[trained - 1]
    yield np.array(sample.token_ids_T, dtype=np.int64)[trained]
    yield np.array(sample.logprobs_T, dtype=np.float64)[trained]
    yield np.full(len(trained), index)
    yield np.ones(len(trained)) if sample.temperatures_T is None else np.array(sample.temperatures_T)[trained]
    allowed_T = sample.allowed_T or (None,) * len(sample.token_ids_T)
    sets = [allowed_T[t] for t in trained]
    yield np.array([ALL if each is None else numbers.setdefault(each, len(numbers)) for each in sets], dtype=np.int64)
