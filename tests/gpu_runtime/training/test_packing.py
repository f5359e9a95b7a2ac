"""A packed tree computes what its samples compute alone: same loss, same gradients, each trained
token once.
"""

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_block_mask

from gpu_runtime.loop.data import sample_data
from gpu_runtime.loop.sample import Sample
from gpu_runtime.model_interfaces import Datum
from gpu_runtime.training.losses import clipped_ratio
from gpu_runtime.training.policy import Policy
from gpu_runtime.training.rows.packing import TreeRow, pack, pack_row, prefix_order
from gpu_runtime.training.rows.tensors import RowTensors
from gpu_runtime.training.tree_flex import block_mask
from support.generated import any_speed, any_speed_shared
from support.tiny_model import tiny_model_make
from tinkerscript.wire.training.losses import ADVANTAGES, OLD, TARGETS

# Few token ids and short lists, so that shared prefixes, forks and equal samples are common.
token_lists = st.lists(st.integers(2, 5), min_size=2, max_size=9)


@st.composite
def sample_lists(draw):
    samples = []
    for ids in draw(st.lists(token_lists, min_size=1, max_size=6)):
        mask = draw(st.lists(st.integers(0, 1), min_size=len(ids), max_size=len(ids)))
        logprobs = tuple(-1.3 * m for m in mask)
        samples.append(
            Sample(
                tuple(ids),
                tuple(mask),
                logprobs,
                draw(st.floats(-2, 2, width=32)),
                group=draw(st.integers(0, 2)),
            )
        )
    return samples


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return Policy.load(str(tiny_model_make(tmp_path_factory.mktemp("tiny"))), torch.float32)


@any_speed
@given(sample_lists(), st.integers(4, 40))
def test_every_trained_token_is_packed_exactly_once(samples, budget):
    data = sample_data(samples)
    rows = pack(data, budget, range(len(samples)))
    assert sorted(index for row in rows for index in row) == list(range(len(samples)))
    expected = sorted(
        (index, sample.token_ids_T[t])
        for index, sample in enumerate(samples)
        for t in range(1, len(sample.token_ids_T))
        if sample.mask_T[t]
    )
    packed = [pack_row(data, row) for row in rows]
    assert (
        sorted((i, t) for row in packed for i, t in zip(row.datum_K, row.target_K, strict=True))
        == expected
    )


@any_speed
@given(sample_lists())
def test_a_node_sees_exactly_its_own_prefix(samples):
    row = row_of(samples)
    visible = dense_mask(torch.from_numpy(row.end_N))
    prefixes = {s.token_ids_T[:n] for s in samples for n in range(1, len(s.token_ids_T))}
    seen = [
        tuple(row.tokens_N[j] for j in range(len(row.tokens_N)) if visible[i, j])
        for i in range(len(row.tokens_N))
    ]
    assert sorted(seen) == sorted(prefixes)  # each distinct prefix is one node, computed once
    assert all(len(prefix) == depth + 1 for prefix, depth in zip(seen, row.depth_N, strict=True))


def test_the_gpus_mask_shows_what_the_cpus_mask_shows():
    samples = [Sample((2, 3, 4, 5, token), (0,) * 5, (0.0,) * 5, 0.0) for token in (2, 3)]
    samples.append(Sample((2, 4, 4, 4), (0,) * 4, (0.0,) * 4, 0.0))
    end_N = torch.from_numpy(row_of(samples).end_N)
    dense_NN = dense_mask(end_N)
    sees = block_mask(end_N).mask_mod
    index_N = torch.arange(len(end_N))
    assert torch.equal(sees(None, None, index_N[:, None], index_N[None, :]), dense_NN)
    assert 0 < dense_NN.sum() < dense_NN.numel()


@pytest.mark.parametrize("window", [None, 5, 128, 300])
def test_the_gpus_blocks_leave_out_no_visible_pair_and_are_whole_where_all_are_visible(window):
    """As torch's own comparison of every pair finds them; only where a window ends may there be one
    too many.
    """
    rng = random.Random(3)
    prompts = [[rng.randrange(2, 90) for _ in range(length)] for length in (300, 40)]
    answers = [p + [rng.randrange(2, 90) for _ in range(n)] for p in prompts for n in (200, 5, 130)]
    samples = [Sample(tuple(ids), (0,) * len(ids), (0.0,) * len(ids), 0.0) for ids in answers]
    end_N = torch.from_numpy(row_of(samples).end_N)
    ours = block_mask(end_N, window)
    own = create_block_mask(ours.mask_mod, None, None, len(end_N), len(end_N), device="cpu")
    whole, some = (
        block_table(ours.full_kv_num_blocks, ours.full_kv_indices),
        ours.to_dense()[0, 0].bool(),
    )
    own_whole, own_some = (
        block_table(own.full_kv_num_blocks, own.full_kv_indices),
        own.to_dense()[0, 0].bool(),
    )
    assert own_some.numel() > own_some.sum() > own_whole.sum()
    assert (own_whole.sum() > 0) == (window in (None, 300)), (
        "no block fits into a window of its own length"
    )
    assert (own_some <= some).all() and (whole <= own_whole).all()
    if window is None:
        assert torch.equal(some, own_some) and torch.equal(whole, own_whole)


def block_table(counts, indices):
    """``[Q, K]``, true for the blocks that a block of queries has."""
    table = torch.zeros(indices.shape[-2:], dtype=torch.bool)
    for block, count in enumerate(counts[0, 0]):
        table[block, indices[0, 0, block, :count].long()] = True
    return table


@pytest.mark.system
@settings(any_speed_shared, max_examples=25)
@given(sample_lists())
def test_loss_and_gradients_equal_the_unpacked_computation(policy, samples):
    packed = _loss_and_gradient(policy, samples, [range(len(samples))])
    alone = _loss_and_gradient(policy, samples, [[i] for i in range(len(samples))])
    if packed is None:
        assert alone is None
        return
    assert packed[0] == pytest.approx(alone[0], rel=1e-5, abs=1e-6)
    error = (packed[1] - alone[1]).norm() / alone[1].norm().clamp(min=1e-6)
    assert error < 1e-5


def test_the_budget_bounds_a_row_unless_one_sample_is_larger():
    samples = [
        Sample(tuple(range(g * 100, g * 100 + 20)), (0,) * 20, (0.0,) * 20, 0.0, group=g)
        for g in range(5)
    ]
    data, order = sample_data(samples), range(len(samples))
    sizes = [len(pack_row(data, row).tokens_N) for row in pack(data, 40, order)]
    assert sizes == [38, 38, 19]
    assert len(pack(data, 5, order)) == 5


def test_what_data_share_counts_once_against_the_budget_of_a_row():
    lists = [[*range(10), 20 + n, 30 + n] for n in range(4)]
    data = [Datum(np.array(ids), {TARGETS: np.array(ids)}) for ids in lists]
    assert pack(data, 18, range(4)) == [[0, 1, 2, 3]]
    assert pack(data, 17, range(4)) == [[0, 1, 2], [3]]


@any_speed
@given(st.lists(token_lists, min_size=1, max_size=6), st.integers(4, 40))
def test_data_in_lexicographic_order_share_all_that_they_can(lists, budget):
    """Whatever order they were sent in: as few nodes as the trie of a whole call has, where a row
    holds it.
    """
    data = [Datum(np.array(ids), {TARGETS: np.array(ids)}) for ids in lists]
    rows = pack(data, budget, prefix_order(data))
    shuffled = data[::-1]
    again = pack(shuffled, budget, prefix_order(shuffled))
    tokens = [[tuple(data[index].token_ids_N) for index in row] for row in rows]
    assert tokens == [[tuple(shuffled[index].token_ids_N) for index in row] for row in again]
    if len(rows) == 1:
        nodes = {tuple(ids[:n]) for ids in lists for n in range(1, len(ids) + 1)}
        assert len(pack_row(data, rows[0]).tokens_N) == len(nodes)


def row_of(samples: list[Sample]) -> TreeRow:
    return pack_row(sample_data(samples), range(len(samples)))


def dense_mask(end_N):
    """``[N, N]``, true where j is an ancestor of i or i itself: j <= i < end_N[j]."""
    index_N = torch.arange(len(end_N))
    return (index_N[None, :] <= index_N[:, None]) & (index_N[:, None] < end_N[None, :])


def _loss_and_gradient(policy, samples, rows):
    policy.zero_grad()
    total = 0.0
    data = sample_data(samples)
    for indices in rows:
        row = pack_row(data, indices)
        if not len(row.target_K):
            continue
        tensors = RowTensors.of(row, data, torch.device("cpu"))
        ratio_K = torch.exp(policy(tensors) - tensors.loss_input(OLD))
        loss = clipped_ratio(ratio_K, tensors.loss_input(ADVANTAGES), 0.8, 1.2).sum()
        loss.backward()
        total += loss.item()
    gradients = [p.grad.flatten() for p in policy.parameters() if p.grad is not None]
    return (total, torch.cat(gradients)) if gradients else None
