"""Samples of a batch: masks, advantages and weights, per episode and not per timeline."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_runtime.journal.token_values import UNKNOWN
from gpu_runtime.loop.batching import (
    TrainedEpisode,
    batch_samples,
    samples_with_signal,
)
from gpu_runtime.loop.measures import batch_statistics
from support.trained_batches import batch, call, episode
from tinkerscript.wire.config import SessionConfig


def test_advantage_is_the_episodes_and_its_timelines_weigh_by_their_tokens() -> None:
    many = episode(1, 1.0, call("a", [1], [2]), call("b", [5], [6]), call("c", [7], [8, 9]))
    one = episode(2, 0.0, call("d", [1], [3, 4]))
    samples = batch_samples(batch([many, one]), SessionConfig(normalize_advantage=False))
    assert [sample.advantage for sample in samples] == [0.5, 0.5, 0.5, -0.5]
    assert [sample.weight for sample in samples] == [0.25, 0.25, 0.5, 1.0]
    assert samples[3].mask_T == (0, 1, 1)
    assert samples[3].logprobs_T == (0.0, -0.5, -1.5)


def test_groups_do_not_mix() -> None:
    samples = batch_samples(
        batch(
            [episode(1, 1.0, call("a", [1], [2])), episode(2, 0.0, call("b", [1], [2]))],
            [episode(3, 9.0, call("c", [1], [2])), episode(4, 9.0, call("d", [1], [2]))],
        ),
        SessionConfig(),
    )
    assert [sample.group for sample in samples] == [0, 0, 1, 1]
    assert [round(sample.advantage, 3) for sample in samples] == [1.0, -1.0, 0.0, 0.0]


def test_cancelled_calls_are_not_trained() -> None:
    samples = batch_samples(
        batch([episode(1, 1.0, call("a", [1], [2]), call("b", [1], [9], status="cancelled"))]),
        SessionConfig(),
    )
    assert [sample.token_ids_T for sample in samples] == [(1, 2)]


def test_named_agents_have_their_own_rewards_and_timelines() -> None:
    members = [
        episode(
            1,
            0.0,
            call("a", [1], [2], "x"),
            call("b", [1, 2], [3], "y"),
            by_agent={"x": 1.0, "y": 0.0},
        ),
        episode(
            2,
            0.0,
            call("c", [1], [2], "x"),
            call("d", [1, 2], [3], "y"),
            by_agent={"x": 0.0, "y": 1.0},
        ),
    ]
    samples = batch_samples(batch(members), SessionConfig(normalize_advantage=False))
    assert [(sample.mask_T, sample.advantage) for sample in samples] == [
        ((0, 1), 0.5),
        ((0, 0, 1), -0.5),
        ((0, 1), -0.5),
        ((0, 0, 1), 0.5),
    ]


def conversation(number: int, reward: float, name: str, by_call=None) -> TrainedEpisode:
    """Two calls that merge into one timeline: 1 | 2 3 | 4 | 5, of which 2 3 and 5 were sampled."""
    calls = (
        call(f"call_{name}1", [1], [2, 3]),
        call(f"call_{name}2", [1, 2, 3, 4], [5], begun_at=1.0),
    )
    return episode(number, reward, *calls, by_call=by_call)


def test_calls_that_merged_keep_their_own_advantages_token_by_token() -> None:
    rewarded = [
        conversation(1, 0.0, "a", by_call={"chatcmpl-a1": 1.0, "call_a2": -1.0}),
        conversation(2, 0.0, "b", by_call={"msg_b1": 0.0, "resp_b2": 2.0}),
    ]
    first, second = batch_samples(batch(rewarded), SessionConfig(normalize_advantage=False))
    assert first.advantages_T == (0.0, 1.0, 1.0, 0.0, -3.0)
    assert second.advantages_T == (0.0, -1.0, -1.0, 0.0, 3.0)
    assert first.advantage == pytest.approx(-1.0 / 3)
    assert (first.mask_T, first.weight) == ((0, 1, 1, 0, 1), 1.0)


def test_an_unnamed_call_is_credited_with_its_episode() -> None:
    rewarded = [
        conversation(1, 1.0, "a", by_call={"chatcmpl-a1": 3.0}),
        conversation(2, 0.0, "b", by_call={"chatcmpl-b1": 1.0}),
    ]
    samples = batch_samples(batch(rewarded), SessionConfig(normalize_advantage=False))
    assert [sample.advantages_T for sample in samples] == [
        (0.0, 2.0, 2.0, 0.0, 0.5),
        (0.0, -2.0, -2.0, 0.0, -0.5),
    ]


def test_rewards_by_call_equal_to_the_episodes_change_no_sample_beside_a_baseline_of_the_others() -> (
    None
):
    plain = [conversation(1, 1.0, "a"), conversation(2, 0.25, "b")]
    named = [
        conversation(1, 1.0, "a", by_call={"chatcmpl-a1": 1.0, "chatcmpl-a2": 1.0}),
        conversation(2, 0.25, "b", by_call={"chatcmpl-b1": 0.25, "chatcmpl-b2": 0.25}),
    ]
    config = SessionConfig(advantage_baseline="leave_one_out")
    samples = batch_samples(batch(plain), config)
    assert samples == batch_samples(batch(named), config)
    assert [sample.advantages_T for sample in samples] == [None, None]


def test_parallel_calls_are_compared_in_the_order_in_which_they_began() -> None:
    """The journal has them as they ended."""
    late, early = call("call_y", [9], [2], begun_at=2.0), call("call_x", [1], [2], begun_at=1.0)
    members = [
        episode(1, 0.0, late, early, by_call={"call_x": 1.0, "call_y": 5.0}),
        episode(
            2,
            0.0,
            call("call_u", [1], [3], begun_at=1.0),
            call("call_v", [9], [3], begun_at=2.0),
            by_call={"call_u": 0.0, "call_v": 0.0},
        ),
    ]
    samples = batch_samples(batch(members), SessionConfig(normalize_advantage=False))
    assert [(sample.token_ids_T, sample.advantage) for sample in samples] == [
        *(((9, 2), 5.0), ((1, 2), 1.0)),
        *(((1, 3), -1.0), ((9, 3), -5.0)),
    ]


def test_a_call_is_compared_with_its_own_agents_calls() -> None:
    members = [
        episode(
            number,
            0.0,
            call(f"call_{number}p", [1], [2], "planner"),
            call(f"call_{number}d", [8], [9], "doer", begun_at=1.0),
            by_agent={"planner": number * 1.0},
            by_call={f"call_{number}d": number * 10.0},
        )
        for number in (0, 1)
    ]
    samples = batch_samples(batch(members), SessionConfig(normalize_advantage=False))
    assert [sample.advantage for sample in samples] == [-0.5, -10.0, 0.5, 10.0]


@pytest.mark.parametrize(
    ("rewards", "by_call", "skipped"),
    [
        ((1.0, 1.0), None, 1),
        ((1.0, 1.0), {"call_a1": 0.0, "call_a2": 0.5}, 0),
        ((1.0, 0.0), {"call_a1": 0.0}, 0),
    ],
)
def test_a_group_is_skipped_iff_no_token_of_it_has_an_advantage(rewards, by_call, skipped) -> None:
    group = [conversation(1, rewards[0], "a", by_call=by_call), conversation(2, rewards[1], "b")]
    samples = batch_samples(batch(group), SessionConfig())
    assert batch_statistics(batch(group), SessionConfig())["groups_skipped"] == skipped
    assert any(sample.has_signal for sample in samples) == (not skipped)


def test_statistics_are_measured() -> None:
    found = batch_statistics(
        batch(
            [
                episode(1, 1.0, call("a", [1], [2, 3])),
                episode(2, 0.0, call("b", [1], [2]), version=1),
            ],
            [episode(3, 0.5, call("c", [1], [2])), episode(4, 0.5, call("d", [1], [2]))],
        ),
        SessionConfig(),
    )
    assert found.pop("metrics") == {}
    assert found == pytest.approx(
        {
            **{
                "reward_mean": 0.5,
                "reward_std": 0.3535533,
                "episodes": 4,
                "groups": 2,
                "groups_skipped": 1,
            },
            **{"reward_p10": 0.15, "reward_p50": 0.5, "reward_p90": 0.85},
            **{"staleness_max": 2, "completion_length_mean": 1.25, "answers_distinct": 0.5},
            **{"truncated": 0.0, "grammars_lost": 0},
        }
    )


def test_equal_episodes_are_trained_where_their_calls_earned_differently() -> None:
    """And left out where nothing did, whatever their rewards."""
    differ = [
        conversation(1, 1.0, "a", by_call={"call_a1": 0.0, "call_a2": 0.5}),
        conversation(2, 1.0, "b"),
    ]
    level = {name: 0.0 for name in ("call_c1", "call_c2", "call_d1", "call_d2")}
    equal = [conversation(3, 1.0, "c", by_call=level), conversation(4, 0.0, "d", by_call=level)]
    found = samples_with_signal(batch(differ, equal), SessionConfig(kl_coef=0.0))
    assert [sample.group for sample in found] == [0, 0]


def test_a_group_of_equal_rewards_is_trained_by_the_kl_term_once_the_policy_may_have_moved() -> (
    None
):
    differ = [conversation(1, 1.0, "a"), conversation(2, 0.0, "b")]
    level = [conversation(3, 1.0, "c"), conversation(4, 1.0, "d")]

    def trained(*groups: list, step: int, **options: Any) -> list[int]:
        made = replace(batch(*groups), step=step)
        return [sample.group for sample in samples_with_signal(made, SessionConfig(**options))]

    assert trained(differ, level, step=1) == [0, 0, 1, 1]
    assert trained(level, level, step=1) == [], "the policy is its reference"
    assert trained(level, step=2) == [0, 0]
    for without in ({"kl_coef": 0.0}, {"kl_in": "reward"}):
        assert trained(differ, level, step=2, **without) == [0, 0]
        assert trained(level, step=2, **without) == []


def test_a_discount_credits_a_call_with_what_came_after_it() -> None:
    """Only the last call is named: with the discount each call before it has its part, without it
    none has.
    """
    group = [
        conversation(1, 0.0, "a", by_call={"call_a2": 1.0}),
        conversation(2, 0.0, "b", by_call={"call_b2": 0.0}),
    ]
    plain, half = (
        batch_samples(
            batch(group), SessionConfig(normalize_advantage=False, call_discount=discount)
        )[0].advantages_T
        for discount in (0.0, 0.5)
    )
    assert plain == (0.0, 0.0, 0.0, 0.0, 1.0)
    assert half == (0.0, 0.5, 0.5, 0.0, 1.0)


def test_each_baseline_compares_with_its_own_pool() -> None:
    """Rewards 3 1 | 1 1: the second group learns from the batch's mean alone."""
    rewards = ((3.0, 1.0), (1.0, 1.0))
    groups = [
        [episode(n, r, call(f"c{g}{n}", [g], [2])) for n, r in enumerate(of)]
        for g, of in enumerate(rewards)
    ]
    found = {
        baseline: [
            sample.advantage
            for sample in batch_samples(
                batch(*groups),
                SessionConfig(normalize_advantage=False, advantage_baseline=baseline),
            )
        ]
        for baseline in ("group", "leave_one_out", "batch")
    }
    assert found == {
        "group": [1.0, -1.0, 0.0, 0.0],
        "leave_one_out": [2.0, -2.0, 0.0, 0.0],
        "batch": [1.5, -0.5, -0.5, -0.5],
    }


def test_answers_that_were_cut_off_are_context_alone() -> None:
    """An episode with one whole and one truncated answer trains the whole one; a truncated one
    trains nothing.
    """
    cut = replace(call("cut", [1, 2, 3, 4], [5], begun_at=1.0))
    cut = replace(cut, completions=(replace(cut.completions[0], finish_reason="length"),))
    alone = replace(cut, id="alone")
    group = [episode(1, 1.0, call("whole", [1], [2, 3]), cut), episode(2, 0.0, alone)]
    (kept,) = batch_samples(batch(group), SessionConfig(mask_truncated=True))
    assert (kept.token_ids_T, kept.mask_T, kept.logprobs_T) == (
        (1, 2, 3, 4, 5),
        (0, 1, 1, 0, 0),
        (0, -0.5, -1.5, 0, 0),
    )
    assert kept.advantage == pytest.approx(1.0, abs=1e-5) and kept.weight == 1.0, (
        "its reward stays in the baseline"
    )
    assert (
        sum(map(sum, (sample.mask_T for sample in batch_samples(batch(group), SessionConfig()))))
        == 4
    )


def test_calls_without_tools_are_left_out_on_request() -> None:
    """A title beside a call with tools is no sample; of an episode without any tools every call is
    one.
    """
    acts = replace(
        call("acts", [1], [2, 3]),
        options={"tools": [{"type": "function", "function": {"name": "f"}}]},
    )
    title = call("title", [7], [8], begun_at=1.0)
    group = [episode(1, 1.0, acts, title), episode(2, 0.0, replace(title, id="alone"))]
    for config, trained in (
        ({}, [[2, 3], [8], [8]]),
        ({"train_calls_without_tools": False}, [[2, 3], [8]]),
    ):
        samples = batch_samples(batch(group), SessionConfig(**config))
        found = [
            [t for t, mask in zip(s.token_ids_T, s.mask_T, strict=True) if mask] for s in samples
        ]
        assert found == trained, config


def test_long_answers_cost_a_part_of_the_reward() -> None:
    """max_tokens 8, buffer 4: six tokens cost a half, and each call its own length."""
    group = [episode(1, 1.0, call("a", [1], [2] * 6)), episode(2, 1.0, call("b", [1], [3]))]
    shaped = SessionConfig(max_tokens=8, overlong_buffer=4, normalize_advantage=False)
    assert [sample.advantage for sample in batch_samples(batch(group), shaped)] == [-0.25, 0.25]
    named = [
        episode(1, 0.0, call("call_a", [1], [2] * 6), by_call={"call_a": 1.0}),
        episode(2, 0.0, call("call_b", [1], [3]), by_call={"call_b": 1.0}),
    ]
    assert [sample.advantage for sample in batch_samples(batch(named), shaped)] == [-0.5, 0.5]


def test_an_answer_that_its_calls_own_limit_cut_off_costs_the_whole_penalty() -> None:
    """The session allows 256 tokens, this call 24: its 24 tokens cost what 256 would cost
    another.
    """
    short = call("a", [1], [2] * 24)
    short = replace(short, options={"sampling": {"temperature": 1.0, "max_tokens": 24}})
    shaped = SessionConfig(max_tokens=256, overlong_buffer=64, normalize_advantage=False)
    group = [episode(1, 1.0, short), episode(2, 1.0, call("b", [1], [3]))]
    assert [sample.advantage for sample in batch_samples(batch(group), shaped)] == [-0.5, 0.5]


def test_a_call_with_a_smaller_limit_has_a_smaller_buffer_in_proportion() -> None:
    """The session: 256 and 64. This call: 32, so its last 8 tokens cost; a buffer of 64 would cost
    from the first.
    """
    shaped = SessionConfig(max_tokens=256, overlong_buffer=64, normalize_advantage=False)
    for length, lost in ((24, 0.0), (28, 0.5), (32, 1.0)):
        short = replace(
            call("a", [1], [2] * length),
            options={"sampling": {"temperature": 1.0, "max_tokens": 32}},
        )
        group = [episode(1, 1.0, short), episode(2, 1.0, call("b", [1], [3]))]
        samples = batch_samples(batch(group), shaped)
        assert [sample.advantage for sample in samples] == (
            [-lost / 2, lost / 2] if lost else [0.0, 0.0]
        )


def test_answers_that_were_cut_off_and_grammars_that_were_lost_are_counted() -> None:
    cut = call("a", [1], [2, 3], grammar=True, allowed=(None, UNKNOWN))
    cut = replace(cut, completions=(replace(cut.completions[0], finish_reason="length"),))
    found = batch_statistics(
        batch([episode(1, 1.0, cut), episode(2, 0.0, call("b", [1], [3]))]), SessionConfig()
    )
    assert (found["truncated"], found["grammars_lost"]) == (0.5, 1)


def test_the_spread_of_answers_is_measured() -> None:
    alike = [episode(n, 1.0 * n, call(f"a{n}", [1], [2])) for n in range(3)]
    apart = [episode(n, 1.0 * n, call(f"b{n}", [1], [n])) for n in range(3)]
    assert batch_statistics(batch(alike, apart), SessionConfig())["answers_distinct"] == 0.5
    assert (
        batch_statistics(batch(alike, apart), SessionConfig(), [0.0, 0.0])["answers_distinct"]
        == 0.25
    )
