"""Packs data as trees, so that a prefix that many data share is computed once. numpy alone.

In lexicographic order a datum shares its longest prefix with a neighbour, so the trie over token ids in depth-first
order is read off from the longest common prefixes of neighbours. What a node sees is as in ``training/packing.py``.
Unlike there, a datum's targets are its own, any number at each token, and none is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_runtime.model_interfaces import Datum


@dataclass(frozen=True)
class DataRow:
    """One packed row: N nodes; ``end_N[i]`` is one past the last node of i's subtree: j sees i iff i <= j < end_N[i].

    E targets in ascending order of ``node_E``, the node that predicts each. ``flat_E`` is a target's place among those
    of ``data`` one after another, each flattened; ``datum_E`` the place of its datum in ``data``.
    """

    data: tuple[int, ...]
    tokens_N: np.ndarray
    depth_N: np.ndarray
    end_N: np.ndarray
    node_E: np.ndarray
    flat_E: np.ndarray
    datum_E: np.ndarray


def rows_pack(data: Sequence[Datum], token_budget: int) -> list[DataRow]:
    """Rows of about ``token_budget`` nodes or one datum. The split depends on the data alone."""
    order = sorted(range(len(data)), key=lambda index: (_sortable(data[index].token_ids_N), index))
    rows: list[list[int]] = []
    size = 0
    for position, index in enumerate(order):
        tokens = data[index].token_ids_N
        shared = _common_prefix(data[order[position - 1]].token_ids_N, tokens) if rows else 0
        if rows and size + len(tokens) - shared <= token_budget:
            rows[-1].append(index)
            size += len(tokens) - shared
        else:
            rows.append([index])
            size = len(tokens)
    return [_row(data, row) for row in rows]


def _row(data: Sequence[Datum], indices: Sequence[int]) -> DataRow:
    tokens, depths, nodes = [], [], []
    end_N = np.zeros(sum(len(data[index].token_ids_N) for index in indices), dtype=np.int64)
    count = 0
    path = np.zeros(0, dtype=np.int64)  # the nodes of the datum before
    before = np.zeros(0, dtype=np.int64)
    for index in indices:
        own = data[index].token_ids_N.astype(np.int64)
        shared = _common_prefix(before, own)
        end_N[path[shared:]] = count
        path = np.concatenate([path[:shared], np.arange(count, count + len(own) - shared)])
        tokens.append(own[shared:])
        depths.append(np.arange(shared, len(own)))
        targets = data[index].loss_inputs["target_tokens"]
        nodes.append(np.repeat(path, targets.size // len(own)))
        count += len(own) - shared
        before = own
    end_N[path] = count
    node_E = np.concatenate(nodes)
    flat_E = np.argsort(node_E, kind="stable")
    datum_E = np.repeat(np.arange(len(indices)), [len(each) for each in nodes])
    return DataRow(
        data=tuple(indices),
        tokens_N=np.concatenate(tokens),
        depth_N=np.concatenate(depths),
        end_N=end_N[:count],
        node_E=node_E[flat_E],
        flat_E=flat_E,
        datum_E=datum_E[flat_E],
    )


def _sortable(tokens: np.ndarray) -> bytes:
    return tokens.astype(">u4").tobytes()  # big-endian bytes compare as the numbers do


def _common_prefix(one: np.ndarray, other: np.ndarray) -> int:
    length = min(len(one), len(other))
    different = one[:length] != other[:length]
    return int(different.argmax()) if different.any() else length
