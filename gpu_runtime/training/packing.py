"""Packs samples as trees, so that a prefix that many samples share is computed once.

The samples of one row become a trie over token ids. Its nodes, numbered in depth-first order, are the row's tokens: N
nodes, position = depth, and a node attends to itself and its ancestors alone. A trained token of a sample is an entry
(K of them): it is predicted from the hidden state of its parent node.

    samples  a b c x | a b d x | a e x      row  a b c d e      depth  0 1 2 2 1      parents of c, d: b;  of b, e: a

Because a node sees exactly the tokens that its samples saw, at the same positions, loss and gradients equal the
unpacked computation up to rounding. No torch in here: plain lists, so that it can be read and tested alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpu_runtime.interfaces import Sample


@dataclass
class TreeRow:
    """One packed row. ``end_N[i]`` is one past the last node of i's subtree: j sees i iff i <= j < end_N[i].

    Entries: ``source_K`` the node that predicts, ``target_K`` the token id, ``sample_K`` the index in ``samples``,
    ``temperature_K`` that of sampling, ``narrowed_K`` whether under a grammar.
    """

    tokens_N: list[int] = field(default_factory=list)
    depth_N: list[int] = field(default_factory=list)
    end_N: list[int] = field(default_factory=list)
    source_K: list[int] = field(default_factory=list)
    target_K: list[int] = field(default_factory=list)
    old_K: list[float] = field(default_factory=list)
    sample_K: list[int] = field(default_factory=list)
    temperature_K: list[float] = field(default_factory=list)
    narrowed_K: list[bool] = field(default_factory=list)


@dataclass
class _Node:
    """A trie node: its children by token, and the trained tokens predicted from it as (token, logprob, sample,
    temperature, narrowed)."""

    depth: int
    children: dict[int, "_Node"] = field(default_factory=dict)
    trained: list[tuple[int, float, int, float, bool]] = field(default_factory=list)


def pack_row(samples: Sequence[Sample], indices: Sequence[int]) -> TreeRow:
    """The tree of ``samples[i] for i in indices``. A sample's first token is never trained: nothing predicts it."""
    root = _Node(depth=-1)
    for index in indices:
        _insert(root, samples[index], index)
    row = TreeRow()
    _flatten(root, row)
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
    root, size = _Node(depth=-1), 0
    for index, sample in sorted(enumerate(samples), key=lambda pair: (pair[1].group, pair[0])):
        added = _new_nodes(root, sample)
        if rows and size + added <= token_budget:
            rows[-1].append(index)
        else:
            rows.append([index])
            root, size, added = _Node(depth=-1), 0, len(sample.token_ids_T) - 1
        _insert(root, sample, index)
        size += added
    return rows


def _insert(root: _Node, sample: Sample, index: int) -> None:
    node = root
    last = len(sample.token_ids_T) - 1
    for position, token in enumerate(sample.token_ids_T):
        if sample.mask_T[position] and node is not root:
            sampled = sample.temperature_at(position), sample.narrowed_at(position)
            node.trained.append((token, sample.logprobs_T[position], index, *sampled))
        if position < last:  # nothing is predicted from the last token: it needs no node
            node = node.children.setdefault(token, _Node(depth=node.depth + 1))


def _new_nodes(root: _Node, sample: Sample) -> int:
    node = root
    for position, token in enumerate(sample.token_ids_T[:-1]):
        if token not in node.children:
            return len(sample.token_ids_T) - 1 - position
        node = node.children[token]
    return 0


def _flatten(root: _Node, row: TreeRow) -> None:
    # An explicit stack: a trie is as deep as a sample is long. A None closes the subtree that was opened last.
    stack: list[tuple[int, _Node] | None] = list(reversed(root.children.items()))
    opened: list[int] = []
    while stack:
        item = stack.pop()
        if item is None:
            row.end_N[opened.pop()] = len(row.tokens_N)
            continue
        token, node = item
        here = len(row.tokens_N)
        row.tokens_N.append(token)
        row.depth_N.append(node.depth)
        row.end_N.append(0)
        opened.append(here)
        for target, logprob, index, temperature, narrowed in node.trained:
            row.source_K.append(here)
            row.target_K.append(target)
            row.old_K.append(logprob)
            row.sample_K.append(index)
            row.temperature_K.append(temperature)
            row.narrowed_K.append(narrowed)
        stack.append(None)
        stack.extend(reversed(node.children.items()))
