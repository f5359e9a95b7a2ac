"""Advantages compare the episodes of one group, and nothing else."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runtime.training.grpo import call_advantages, group_advantages

rewards = st.lists(st.floats(-100, 100), min_size=1, max_size=16)


def test_advantage_is_the_normalised_distance_to_the_mean() -> None:
    found = group_advantages([1.0, 0.0, 0.0, 1.0], normalize=True)
    assert found == pytest.approx([1.0, -1.0, -1.0, 1.0], abs=1e-5)
    assert group_advantages([1.0, 0.0], normalize=False) == [0.5, -0.5]


@pytest.mark.parametrize("equal", [[0.1] * 8, [0.0, 0.0], [3.0], []])
def test_equal_rewards_and_singletons_teach_nothing(equal: list[float]) -> None:
    assert group_advantages(equal, normalize=True) == [0.0] * len(equal)


@given(rewards, st.booleans())
def test_advantages_sum_to_zero(rewards_G: list[float], normalize: bool) -> None:
    assert sum(group_advantages(rewards_G, normalize=normalize)) == pytest.approx(0.0, abs=1e-6)


@given(rewards)
def test_normalised_advantages_have_unit_spread(rewards_G: list[float]) -> None:
    if statistics.pstdev(rewards_G) > 1e-2:
        assert statistics.pstdev(group_advantages(rewards_G, normalize=True)) == pytest.approx(1.0, abs=1e-3)


def test_a_call_is_compared_with_the_calls_at_its_place() -> None:
    found = call_advantages([0.0, 0.0], [[1.0, 0.5], [0.0, 2.5]], normalize=False)
    assert found == [[0.5, -1.0], [-0.5, 1.0]]


def test_a_call_without_a_reward_or_a_place_stands_with_its_episodes() -> None:
    # Place 0: 4 (named) against 2 and 6.  Place 1: 2 (has no such call) against 2 and 8.  Place 2: nobody names it.
    found = call_advantages([2.0, 2.0, 6.0], [[4.0], [None, 2.0], [None, 8.0, None]], normalize=False)
    assert found == [[0.0], [-2.0, -2.0], [2.0, 4.0, pytest.approx(6 - 10 / 3)]]


@given(st.data(), st.booleans())
def test_where_no_call_is_named_each_has_its_episodes_advantage_bit_for_bit(data, normalize: bool) -> None:
    rewards_G = data.draw(rewards)
    lengths_G = data.draw(st.lists(st.integers(0, 4), min_size=len(rewards_G), max_size=len(rewards_G)))
    found = call_advantages(rewards_G, [[None] * length for length in lengths_G], normalize=normalize)
    whole = group_advantages(rewards_G, normalize=normalize)
    assert found == [[advantage] * length for advantage, length in zip(whole, lengths_G, strict=True)]


@given(st.data(), st.booleans())
def test_naming_every_call_with_its_episodes_reward_changes_nothing(data, normalize: bool) -> None:
    rewards_G = data.draw(rewards)
    lengths_G = data.draw(st.lists(st.integers(0, 4), min_size=len(rewards_G), max_size=len(rewards_G)))
    named_GC = [[reward] * length for reward, length in zip(rewards_G, lengths_G, strict=True)]
    unnamed_GC = [[None] * length for length in lengths_G]
    assert call_advantages(rewards_G, named_GC, normalize=normalize) == call_advantages(
        rewards_G, unnamed_GC, normalize=normalize
    )
