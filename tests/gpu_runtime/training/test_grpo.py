"""Advantages compare the episodes of one group, and nothing else."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runtime.training.grpo import agent_advantages, group_advantages

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


def test_each_agent_is_compared_with_itself() -> None:
    found = agent_advantages([0.0, 1.0], [{"a": 5.0, "b": 1.0}, {"a": 3.0}], ["a", "b"], normalize=False)
    assert found == {None: [-0.5, 0.5], "a": [1.0, -1.0], "b": [0.0, 0.0]}
