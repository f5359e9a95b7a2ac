"""Which attempts of a group are trained, and what their lengths add to their rewards."""

import pytest

from gpu_runtime.loop.advantages import length_terms, most_spread
from gpu_runtime.loop.batching import batch_advantages, batch_samples
from support.trained_batches import batch, call, episode
from tinkerscript.wire.config import SessionConfig


def group(*rewards: float) -> list:
    return [
        episode(number, reward, call(f"c{number}", [1], [2]))
        for number, reward in enumerate(rewards, 1)
    ]


@pytest.mark.parametrize(
    ("rewards", "keep", "places"),
    [
        ([0.0, 0.0, 0.0, 1.0], 2, [2, 3]),
        ([0.0, 0.2, 0.9, 1.0], 2, [0, 3]),
        ([0.0, 0.5, 0.6, 1.0, 1.0], 3, [0, 3, 4]),
        ([1.0, 1.0, 1.0], 2, [0, 2]),
        ([0.0, 1.0], 4, [0, 1]),
    ],
)
def test_the_kept_rewards_have_the_greatest_variance(rewards, keep, places) -> None:
    found = most_spread(rewards, keep)
    assert len(found) == len(places)
    assert sorted(rewards[at] for at in found) == sorted(rewards[at] for at in places)


def test_of_a_group_those_are_trained_whose_rewards_differ_most() -> None:
    config = SessionConfig(grpo_n=4, keep_n=2, normalize_advantage=False)
    samples = batch_samples(batch(group(0.4, 0.0, 0.5, 1.0)), config)
    assert {sample.call_ids: sample.advantage for sample in samples} == {
        ("c2",): -0.5,
        ("c4",): 0.5,
    }
    of_group = batch_advantages(batch(group(0.4, 0.0, 0.5, 1.0)), config)[0]
    assert of_group == [{"c1": 0.0}, {"c2": -0.5}, {"c3": 0.0}, {"c4": 0.5}]


def test_the_rewards_that_are_compared_are_those_that_are_trained() -> None:
    """With what an answer that is too long costs."""
    long = list(range(4))
    members = [
        episode(number, 1.0, call(f"c{number}", [1], long if number == 3 else [2]))
        for number in range(1, 5)
    ]
    config = SessionConfig(
        grpo_n=4, keep_n=2, max_tokens=4, overlong_buffer=2, normalize_advantage=False
    )
    samples = batch_samples(batch(members), config)
    assert {sample.call_ids: sample.advantage for sample in samples} == {
        ("c3",): -0.5,
        ("c4",): 0.5,
    }


def test_a_kept_attempt_whose_reward_is_the_mean_stays_in_the_means() -> None:
    config = SessionConfig(grpo_n=4, keep_n=3, normalize_advantage=False)
    samples = batch_samples(batch(group(0.0, 0.5, 0.5, 1.0)), config)
    assert [sample.advantage for sample in samples] == [-0.5, 0.0, 0.5]


def test_a_group_of_equal_rewards_stays_whole_for_the_kl_term() -> None:
    config = SessionConfig(grpo_n=4, keep_n=2, kl_coef=0.1)
    assert len(batch_samples(batch(group(1.0, 1.0, 1.0, 1.0)), config)) == 4


def test_lengths_add_a_half_to_minus_a_half_and_nothing_to_failures() -> None:
    assert length_terms([2, 4, 6], [True, True, True]) == [0.5, 0.0, -0.5]
    assert length_terms([2, 4, 6], [False, True, False]) == [0.0, 0.0, -0.5]
    assert length_terms([2, 4, 6], [False, False, False]) == [0.0, 0.0, 0.0]
    assert length_terms([3, 3], [True, False]) == [0.0, 0.0]


def test_of_two_successes_the_shorter_has_the_higher_advantage() -> None:
    members = [
        episode(1, 1.0, call("short", [1], [2])),
        episode(2, 1.0, call("long", [1], [2, 3, 4])),
        episode(3, 0.0, call("wrong", [1], [2, 3])),
    ]
    config = SessionConfig(length_penalty=0.2, normalize_advantage=False)
    of_group = batch_advantages(batch(members), config)[0]
    mean = (1.1 + 0.9 + 0.0) / 3
    assert [value for by_call in of_group for value in by_call.values()] == pytest.approx(
        [1.1 - mean, 0.9 - mean, 0.0 - mean]
    )
