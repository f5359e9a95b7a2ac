"""Attention by the kernel in C: the values and gradients of TreeAttention on any forest, whatever
the threads.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpu_runtime.native.compiled import SIDE, compiled
from gpu_runtime.training.cpu import tree_kernel
from gpu_runtime.training.cpu.tree_attention import TreeAttention
from gpu_runtime.training.cpu.tree_blocks import tree_of
from gpu_runtime.training.cpu.tree_kernel import KernelAttention, kernel_can
from support.forests import ends
from support.generated import any_speed

HEADS, GROUPS = 6, 2
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def drawn(nodes: int, size: int = 16, spread: float = 1.0) -> Inputs:
    """Query, key and value as a model's layer has them: heads first, the query seen with its nodes
    first.
    """
    generator = torch.Generator().manual_seed(nodes)
    found = [
        spread * torch.randn(heads, nodes, size, generator=generator)
        for heads in (HEADS, GROUPS, GROUPS)
    ]
    query_HND, key_GND, value_GND = (each.requires_grad_() for each in found)
    return query_HND.transpose(0, 1), key_GND, value_GND


def both(
    inputs: Inputs, end_N: torch.Tensor, size: int = 128
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Values and gradients, of the kernel and of TreeAttention in float64."""
    tree = tree_of(end_N, size)
    ours = KernelAttention.apply(*inputs, tree.for_kernel, 0.3)
    exact = tuple(each.detach().double().requires_grad_() for each in inputs)
    theirs = TreeAttention.apply(*exact, tree, 0.3)
    upstream = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1))
    return (
        [ours, *torch.autograd.grad(ours, inputs, upstream)],
        [theirs, *torch.autograd.grad(theirs, exact, upstream.double())],
    )


@any_speed
@given(ends(), st.sampled_from([1, 3, 16, 17, 128]), st.sampled_from([16, 48, 64]))
def test_values_and_gradients_are_those_of_torchs_operators(end_N, block, size):
    for found, expected in zip(*both(drawn(len(end_N), size), end_N, block), strict=True):
        # Each is a sum of numbers up to the largest, with their rounding: in 3000 examples at most
        # 2.3e-6 of the largest.
        largest = max(1.0, expected.abs().max().item())
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5 * largest)


@pytest.mark.parametrize("spread", [1e-3, 30.0])
def test_scores_near_one_another_and_far_apart_lose_no_more_than_float32_does(spread):
    inputs, end_N = drawn(200, spread=spread), torch.full((200,), 200)
    # torch's own sums run otherwise on each processor
    tree, allowed = tree_of(end_N), 3 if SIDE == 16 else 4
    plain = TreeAttention.apply(*inputs, tree, 0.3)
    upstream = torch.randn(plain.shape, generator=torch.Generator().manual_seed(1))
    of_torch = [plain, *torch.autograd.grad(plain, inputs, upstream)]
    for found, expected, other in zip(*both(inputs, end_N), of_torch, strict=True):
        most = (other.double() - expected).abs().max()
        assert (
            found.double() - expected
        ).abs().max() < allowed * most + 1e-7 * expected.abs().max()


@contextmanager
def threads(count: int) -> Iterator[None]:
    library = compiled(tree_kernel.NAME)
    before = library.omp_get_max_threads()
    library.omp_set_num_threads(ctypes.c_int(count))
    yield
    library.omp_set_num_threads(ctypes.c_int(before))


def test_the_bits_are_the_same_for_any_number_of_threads_and_in_every_run():
    end_N = torch.cat([torch.full((90,), 90 * number) for number in (1, 2, 3, 4)])
    inputs, found = drawn(len(end_N)), []
    for count in (1, 2, 3, 3):
        with threads(count):
            found.append(both(inputs, end_N, 32)[0])
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_number_that_is_none_stays_visible(where):
    inputs, end_N = drawn(40), torch.full((40,), 40)
    with torch.no_grad():
        inputs[where][(0, 0, 3) if where else (20, 0, 3)] = torch.nan
    attended = KernelAttention.apply(*inputs, tree_of(end_N).for_kernel, 0.3)
    assert attended[-1 if where else 20].isnan().any()
    assert any(gradient.isnan().any() for gradient in torch.autograd.grad(attended.sum(), inputs))


def test_an_ancestor_out_of_sight_changes_no_bit():
    """Two sequences in one row: nothing of the first reaches the second."""
    end_N = torch.cat([torch.full((50,), 50), torch.full((50,), 100)])
    inputs, changed = drawn(100), drawn(100)
    with torch.no_grad():
        changed[0][:50] *= 3
        changed[1][:, :50] += 100
        changed[2][:, :50] = 1e30
    ours, others = (
        KernelAttention.apply(*each, tree_of(end_N).for_kernel, 0.3) for each in (inputs, changed)
    )
    assert torch.equal(ours[50:], others[50:]) and not torch.equal(ours[:50], others[:50])


def test_layers_that_it_does_not_compute_are_left_to_torch(monkeypatch):
    monkeypatch.setattr(tree_kernel, "is_suited", lambda: True)
    query, tree = torch.zeros(8, 2, 16), tree_of(torch.full((8,), 8))
    assert kernel_can(query, tree, None, None) and kernel_can(query, tree, 8, None)
    assert not kernel_can(query, tree, 7, None)
    assert not kernel_can(query, tree, None, 30.0)
    assert not kernel_can(query.double(), tree, None, None)
    assert not kernel_can(query.bfloat16(), tree, None, None)
    assert not kernel_can(torch.zeros(8, 2, SIDE + SIDE // 2), tree, None, None)
    monkeypatch.setattr(tree_kernel, "compiled", lambda _: None)
    assert not kernel_can(query, tree, None, None)


def test_the_registered_attention_uses_it_and_has_the_same_result_without_it(monkeypatch):
    from transformers import AttentionInterface

    from gpu_runtime.training.cpu import tree_attention

    attend = AttentionInterface()[tree_attention.ATTENTION]
    query_NHD, key_GND, value_GND = drawn(30)
    arguments = (None, query_NHD.transpose(0, 1)[None], key_GND[None], value_GND[None], None)
    tree, found = tree_of(torch.full((30,), 30)), []
    for can in (True, False):
        monkeypatch.setattr(tree_attention, "kernel_can", lambda *_, can=can: can)
        found.append(attend(*arguments, tree=tree)[0])
    assert [each.grad_fn.next_functions[0][0].name() for each in found] == [
        "KernelAttentionBackward", "TreeAttentionBackward",
    ]  # fmt: skip
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)
