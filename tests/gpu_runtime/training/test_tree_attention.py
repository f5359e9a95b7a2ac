"""Attention in blocks over a tree is attention under the tree's dense mask, whatever the tree and
the block size.
"""

import dataclasses
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from gpu_runtime.errors import ModelUnsupported
from gpu_runtime.loop.data import sample_data
from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.cpu.tree_attention import TreeAttention
from gpu_runtime.training.cpu.tree_blocks import Tree, node_depths, tree_of, trees_joined
from gpu_runtime.training.policy import Policy
from gpu_runtime.training.rows.packing import pack_row
from gpu_runtime.training.rows.tensors import RowTensors
from gpu_runtime.training.tree_flex import block_mask
from support.forests import ends
from support.generated import any_speed
from support.tiny_model import tiny_model_make

HEADS, KEY_HEADS, SIZE = 6, 2, 8


def dense(end_N: torch.Tensor) -> torch.Tensor:
    """The definition: i sees j iff j <= i < end_N[j]."""
    index_N = torch.arange(len(end_N))
    return (index_N[None, :] <= index_N[:, None]) & (index_N[:, None] < end_N[None, :])


def seen(tree: Tree, count: int) -> torch.Tensor:
    """The ``[N, N]`` mask that the blocks stand for."""
    mask = torch.zeros(count, count, dtype=torch.bool)
    for block in tree.blocks:
        keys = torch.cat([torch.arange(first, last) for first, last in block.ranges])
        visible = torch.cat(
            [torch.ones(len(block.hidden), block.common, dtype=torch.bool), ~block.hidden], dim=1
        )
        mask[block.first : block.last, keys] = visible
    return mask


@any_speed
@given(ends(), st.integers(1, 9))
def test_blocks_show_each_query_exactly_its_ancestors(end_N, size):
    tree = tree_of(end_N, size)
    expected = dense(end_N)
    assert torch.equal(seen(tree, len(end_N)), expected)
    assert tree.deepest == expected.sum(dim=1).max()
    for block in tree.blocks:
        assert not block.hidden.all(dim=0).any(), (
            "a key that no query of the block sees is not computed"
        )


@any_speed
@given(st.lists(ends(), min_size=1, max_size=4), st.integers(1, 9))
def test_trees_that_are_joined_keep_their_blocks_and_see_none_of_one_another(each_end_N, size):
    trees = [tree_of(end_N, size) for end_N in each_end_N]
    joined = trees_joined(trees)
    expected = torch.block_diag(*(dense(end_N) for end_N in each_end_N)).bool()
    assert torch.equal(seen(joined, len(expected)), expected)
    assert torch.equal(dense(joined.end_N), expected), "as a GPU's mask is made of it"
    assert joined.deepest == max(tree.deepest for tree in trees)
    assert [block.hidden.shape for block in joined.blocks] == [
        block.hidden.shape for tree in trees for block in tree.blocks
    ]


@pytest.mark.system
@any_speed
@given(ends(), st.integers(1, 9))
def test_values_and_gradients_are_those_of_dense_attention(end_N, size):
    torch.manual_seed(len(end_N))
    count = len(end_N)
    shapes = ((count, HEADS, SIZE), (KEY_HEADS, count, SIZE), (KEY_HEADS, count, SIZE))
    inputs = [torch.randn(shape, dtype=torch.float64).float().requires_grad_() for shape in shapes]
    query_NHD, key_GND, value_GND = inputs
    blocked_NHD = TreeAttention.apply(query_NHD, key_GND, value_GND, tree_of(end_N, size), 0.3)
    dense_HND = torch.nn.functional.scaled_dot_product_attention(
        query_NHD.transpose(0, 1)[None], key_GND[None], value_GND[None], dense(end_N)[None, None], scale=0.3,
        enable_gqa=True,
    )[0]  # fmt: skip
    torch.testing.assert_close(blocked_NHD, dense_HND.transpose(0, 1), rtol=1e-4, atol=1e-5)
    upstream_NHD = torch.randn_like(blocked_NHD)
    ours = torch.autograd.grad(blocked_NHD, inputs, upstream_NHD)
    theirs = torch.autograd.grad(dense_HND.transpose(0, 1), inputs, upstream_NHD)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.system
@any_speed
@given(ends(), st.integers(1, 9), st.integers(1, 6))
def test_a_window_hides_ancestors_by_their_distance_on_the_way_and_not_in_the_row(
    end_N, size, window
):
    depth_N = node_depths(end_N)
    assert depth_N.tolist() == [sum(seen) - 1 for seen in dense(end_N).tolist()]
    windowed = dense(end_N) & (depth_N[:, None] - depth_N[None, :] < window)
    tree = tree_of(end_N, size)
    assert torch.equal(
        seen(dataclasses.replace(tree, blocks=tree.within(window)), len(end_N)), windowed
    )
    gpu = block_mask(end_N, window)
    every = torch.arange(len(end_N))
    assert torch.equal(gpu.mask_mod(0, 0, every[:, None], every[None, :]), windowed)


@pytest.mark.system
@any_speed
@given(
    ends(), st.integers(1, 9), st.sampled_from([None, 1, 2, 3]), st.sampled_from([None, 2.0, 30.0])
)
def test_windows_and_capped_scores_have_the_values_and_gradients_of_their_formula(
    end_N, size, window, softcap
):
    torch.manual_seed(len(end_N))
    count, depth_N = len(end_N), node_depths(end_N)
    shapes = ((count, HEADS, SIZE), (KEY_HEADS, count, SIZE), (KEY_HEADS, count, SIZE))
    inputs = [torch.randn(shape).requires_grad_() for shape in shapes]
    query_NHD, key_GND, value_GND = inputs
    blocked_NHD = TreeAttention.apply(
        query_NHD, key_GND, value_GND, tree_of(end_N, size), 0.3, window, softcap
    )
    visible = dense(end_N) & (depth_N[:, None] - depth_N[None, :] < (window or count))
    key_HND, value_HND = (
        tensor.repeat_interleave(HEADS // KEY_HEADS, 0) for tensor in (key_GND, value_GND)
    )
    scores_HNN = 0.3 * query_NHD.transpose(0, 1) @ key_HND.mT
    if softcap:
        scores_HNN = softcap * torch.tanh(scores_HNN / softcap)
    dense_NHD = (scores_HNN.masked_fill(~visible, -torch.inf).softmax(-1) @ value_HND).transpose(
        0, 1
    )
    torch.testing.assert_close(blocked_NHD, dense_NHD, rtol=1e-4, atol=1e-5)
    upstream_NHD = torch.randn_like(blocked_NHD)
    ours = torch.autograd.grad(blocked_NHD, inputs, upstream_NHD)
    theirs = torch.autograd.grad(dense_NHD, inputs, upstream_NHD)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_a_group_of_eight_computes_a_fraction_of_the_square():
    """Prompt 1024, completion 128: what a dense mask would compute, and what the blocks do."""
    prompt = tuple(range(2, 1026))
    samples = [
        Sample((*prompt, 5000 + i, *range(128)), (0,) * 1153, (0.0,) * 1153, 0.0) for i in range(8)
    ]
    end_N = torch.from_numpy(pack_row(sample_data(samples), range(8)).end_N)
    pairs = sum(
        (b.last - b.first) * sum(last - first for first, last in b.ranges)
        for b in tree_of(end_N).blocks
    )
    needed = int(dense(end_N).sum())
    assert pairs < 1.3 * needed < 0.6 * len(end_N) ** 2


def test_a_model_that_needs_more_than_this_attention_is_refused():
    from transformers import AttentionInterface

    from gpu_runtime.training.cpu.tree_attention import ATTENTION

    attend = AttentionInterface()[ATTENTION]
    heads = torch.randn(1, 2, 4, SIZE)
    chain = tree_of(torch.full((4,), 4))
    assert attend(None, heads, heads, heads, None, scaling=1.0, tree=chain, sliding_window=4)[
        0
    ].shape == (
        1,
        4,
        2,
        SIZE,
    )
    for name in ("s_aux", "position_bias"):
        with pytest.raises(ModelUnsupported, match=name):
            attend(None, heads, heads, heads, None, scaling=1.0, tree=chain, **{name: heads})


def test_log_probabilities_and_gradients_are_those_of_transformers_own_attention(tmp_path):
    """Two groups longer than a block, against SDPA on each sample alone."""
    folder = str(tiny_model_make(tmp_path))
    policy = Policy.load(folder, torch.float32)
    plain = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa"
    )
    rng = random.Random(0)
    samples = []
    for group in range(2):
        prompt = [rng.randrange(2, 90) for _ in range(150)]
        for _ in range(3):
            ids = (*prompt, *(rng.randrange(2, 90) for _ in range(70)))
            samples.append(Sample(ids, (0,) * 150 + (1,) * 70, (0.0,) * 220, 1.0, group=group))
    data = sample_data(samples)
    row = pack_row(data, range(6))
    logprobs_K = policy(RowTensors.of(row, data, torch.device("cpu")))
    logprobs_K.square().sum().backward()
    expected = []
    for sample in samples:
        ids_T = torch.tensor(sample.token_ids_T)
        logits = plain(ids_T[None, :-1], use_cache=False).logits[0, 149:]
        expected.append(logits.log_softmax(-1).gather(1, ids_T[150:, None])[:, 0])
    torch.cat(expected).square().sum().backward()
    # Entries stand in the order of the tree; a sample's own stay in theirs.
    order = row.datum_K.argsort(kind="stable")
    torch.testing.assert_close(logprobs_K[order], torch.cat(expected), rtol=1e-5, atol=1e-5)
    ours, theirs = (
        torch.cat([p.grad.flatten() for p in m.parameters()]) for m in (policy.model, plain)
    )
    assert (ours - theirs).norm() / theirs.norm() < 1e-5
