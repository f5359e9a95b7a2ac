"""Advantages compare the episodes of one group, and nothing else."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runtime.loop.advantages import call_advantages, group_advantages, returns_to_go
from support.generated import any_speed

rewards = st.lists(st.floats(-100, 100), min_size=1, max_size=16)


def test_advantage_is_the_normalised_distance_to_the_mean() -> None:
    found = group_advantages([1.0, 0.0, 0.0, 1.0], normalize=True)
    assert found == pytest.approx([1.0, -1.0, -1.0, 1.0], abs=1e-5)
    assert group_advantages([1.0, 0.0], normalize=False) == [0.5, -0.5]


@pytest.mark.parametrize(
    "equal", [[0.1] * 8, [0.0, 0.0], [3.0], [], [0.1 + 0.2, 0.3], [1e6, 1e6 + 0.01], [0.0, 1e-9]]
)
def test_equal_rewards_and_singletons_teach_nothing(equal: list[float]) -> None:
    assert group_advantages(equal, normalize=True) == [0.0] * len(equal)


@any_speed
@given(rewards, st.booleans())
def test_advantages_sum_to_zero(rewards_G: list[float], normalize: bool) -> None:
    assert sum(group_advantages(rewards_G, normalize=normalize)) == pytest.approx(0.0, abs=1e-6)


@any_speed
@given(rewards)
def test_normalised_advantages_have_unit_spread(rewards_G: list[float]) -> None:
    if statistics.pstdev(rewards_G) > 1e-2:
        assert statistics.pstdev(group_advantages(rewards_G, normalize=True)) == pytest.approx(
            1.0, abs=1e-3
        )


def test_a_call_is_compared_with_the_calls_of_its_index() -> None:
    found = call_advantages([0.0, 0.0], [[1.0, 0.5], [0.0, 2.5]], normalize=False)
    assert found == [[1.0, -2.0], [-1.0, 2.0]]


def test_loops_of_different_length_compare_calls_with_calls_and_never_with_a_whole_episode() -> (
    None
):
    """Three good calls of 0.9 in an episode of 2.7 against two of 0.3 in one of 0.6."""
    found = call_advantages([2.7, 0.6], [[0.9, 0.9, 0.9], [0.3, 0.3]], normalize=True)
    assert (
        found[0][:2] == [pytest.approx(2.0, abs=1e-4)] * 2
        and found[1] == [pytest.approx(-2.0, abs=1e-4)] * 2
    )
    assert found[0][2] == pytest.approx(0.3 / 0.6 * 2 * 1.0206, abs=1e-4), (
        "alone at its index: with the four others"
    )
    found = call_advantages([2.7, 0.6], [[0.9, 0.9, 0.9], [0.3, 0.3]], normalize=False)
    assert [*found[0], *found[1]] == pytest.approx([0.6, 0.6, 0.3, -0.6, -0.6])


def test_equal_calls_of_long_and_short_loops_have_no_advantage() -> None:
    assert call_advantages([2.7, 0.9], [[0.9, 0.9, 0.9], [0.9]], normalize=True) == [
        [0.0] * 3,
        [0.0],
    ]


def test_unnamed_calls_and_one_that_is_alone_in_the_group_keep_their_episodes_advantage() -> None:
    assert call_advantages([2.0, 2.0, 5.0], [[4.0], [None, None], [None]], normalize=False) == [
        [-1.0],
        [-1.0] * 2,
        [2.0],
    ]
    found = call_advantages([2.0, 2.0, 5.0], [[4.0], [2.0, None], [None]], normalize=False)
    assert found == [[2.0], [-2.0, -1.0], [2.0]]


@any_speed
@given(st.data(), st.booleans())
def test_where_no_call_is_named_each_has_its_episodes_advantage_bit_for_bit(
    data, normalize: bool
) -> None:
    rewards_G = data.draw(rewards)
    lengths_G = data.draw(
        st.lists(st.integers(0, 4), min_size=len(rewards_G), max_size=len(rewards_G))
    )
    found = call_advantages(
        rewards_G, [[None] * length for length in lengths_G], normalize=normalize
    )
    whole = group_advantages(rewards_G, normalize=normalize)
    assert found == [
        [advantage] * length for advantage, length in zip(whole, lengths_G, strict=True)
    ]


@any_speed
@given(st.data(), st.booleans())
def test_naming_every_call_of_equal_loops_is_a_baseline_of_the_other_episodes(
    data, normalize: bool
) -> None:
    rewards_G = data.draw(rewards)
    lengths_G = [data.draw(st.integers(0, 4))] * len(rewards_G)
    named_GC = [[reward] * length for reward, length in zip(rewards_G, lengths_G, strict=True)]
    unnamed_GC = [[None] * length for length in lengths_G]
    named = call_advantages(rewards_G, named_GC, normalize=normalize)
    if len(rewards_G) > 1:  # a call that is alone in its group keeps its episode's
        assert named == call_advantages(
            rewards_G, unnamed_GC, normalize=normalize, leave_one_out=True
        )


@any_speed
@given(rewards)
def test_leaving_one_out_is_the_distance_to_the_mean_of_the_others(rewards_G: list[float]) -> None:
    found = group_advantages(rewards_G, normalize=False, leave_one_out=True)
    if max(rewards_G) - min(rewards_G) > 1e-3:
        others = [[*rewards_G[:i], *rewards_G[i + 1 :]] for i in range(len(rewards_G))]
        assert found == pytest.approx(
            [own - statistics.fmean(rest) for own, rest in zip(rewards_G, others, strict=True)],
            abs=1e-9,
        )


def test_a_return_ends_with_the_last_named_call() -> None:
    assert returns_to_go([None, 2.0, None, 1.0, None], 0.5) == [1.125, 2.25, 0.5, 1.0, None]
    assert returns_to_go([None, 2.0, None, 1.0, None], 0.0) == [None, 2.0, None, 1.0, None]
    assert returns_to_go([1.0, 1.0, 1.0], 1.0) == [3.0, 2.0, 1.0]
    assert returns_to_go([None, None], 1.0) == [None, None]
