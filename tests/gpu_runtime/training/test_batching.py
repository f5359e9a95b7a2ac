"""Samples of a batch: masks, advantages and weights, per episode and not per timeline."""

import pytest

from gpu_runtime.journal_records import CallRecord, Completion, EpisodeRecord
from gpu_runtime.learner import trainable
from gpu_runtime.training.batching import Batch, Group, TrainedEpisode, batch_samples, batch_statistics
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import EpisodeState, WorkflowOutput


def call(
    name: str, prompt, sampled, agent: str | None = None, status: str = "completed", begun_at: float = 0.0
) -> CallRecord:
    message = {"role": "assistant", "content": "x"}
    logprobs = tuple(-0.5 - i for i in range(len(sampled)))
    answer = Completion(0, tuple(sampled), logprobs, (0,) * len(sampled), "x", "stop", message)
    return CallRecord(name, "e", tuple(prompt), (answer,), begun_at, 1.0, agent=agent, status=status)


def episode(
    number: int, reward: float, *calls: CallRecord, by_agent=None, by_call=None, version: int = 3
) -> TrainedEpisode:
    output = WorkflowOutput(reward=reward, rewards_by_agent=by_agent, rewards_by_call=by_call)
    nothing = dict.fromkeys(["task", "fate", "reason", "report", "trained_step"])
    record = EpisodeRecord(
        **{"seq": number, "id": f"e{number}", "group_key": "g", "eval": False, "state": EpisodeState.COMPLETED},
        **{"output": output, "calls": len(calls)},
        **{"sampled_tokens": 0, "version_first": version, "version_last": version, "begun_at": 0.0, "deadline_at": 1.0},
        **{"ended_at": 1.0, "end_seq": number},
        **nothing,
    )
    return TrainedEpisode(record, calls)


def batch(*groups: list[TrainedEpisode]) -> Batch:
    return Batch(4, 3, tuple(Group(f"g{n}", tuple(members)) for n, members in enumerate(groups)))


def test_advantage_is_the_episodes_and_its_timelines_share_one_weight() -> None:
    many = episode(1, 1.0, call("a", [1], [2]), call("b", [5], [6]), call("c", [7], [8]))
    one = episode(2, 0.0, call("d", [1], [3, 4]))
    samples = batch_samples(batch([many, one]), normalize=False)
    assert [sample.advantage for sample in samples] == [0.5, 0.5, 0.5, -0.5]
    assert [sample.weight for sample in samples] == pytest.approx([1 / 3, 1 / 3, 1 / 3, 1.0])
    assert samples[3].mask_T == (0, 1, 1)
    assert samples[3].logprobs_T == (0.0, -0.5, -1.5)


def test_groups_do_not_mix() -> None:
    samples = batch_samples(
        batch(
            [episode(1, 1.0, call("a", [1], [2])), episode(2, 0.0, call("b", [1], [2]))],
            [episode(3, 9.0, call("c", [1], [2])), episode(4, 9.0, call("d", [1], [2]))],
        ),
        normalize=True,
    )
    assert [sample.group for sample in samples] == [0, 0, 1, 1]
    assert [round(sample.advantage, 3) for sample in samples] == [1.0, -1.0, 0.0, 0.0]


def test_cancelled_calls_are_not_trained() -> None:
    samples = batch_samples(
        batch([episode(1, 1.0, call("a", [1], [2]), call("b", [1], [9], status="cancelled"))]), normalize=True
    )
    assert [sample.token_ids_T for sample in samples] == [(1, 2)]


def test_named_agents_have_their_own_rewards_and_timelines() -> None:
    members = [
        episode(1, 0.0, call("a", [1], [2], "x"), call("b", [1, 2], [3], "y"), by_agent={"x": 1.0, "y": 0.0}),
        episode(2, 0.0, call("c", [1], [2], "x"), call("d", [1, 2], [3], "y"), by_agent={"x": 0.0, "y": 1.0}),
    ]
    samples = batch_samples(batch(members), normalize=False)
    assert [(sample.mask_T, sample.advantage) for sample in samples] == [
        ((0, 1), 0.5),
        ((0, 0, 1), -0.5),
        ((0, 1), -0.5),
        ((0, 0, 1), 0.5),
    ]


def conversation(number: int, reward: float, name: str, by_call=None) -> TrainedEpisode:
    """Two calls that merge into one timeline: 1 | 2 3 | 4 | 5, of which 2 3 and 5 were sampled."""
    calls = call(f"call_{name}1", [1], [2, 3]), call(f"call_{name}2", [1, 2, 3, 4], [5], begun_at=1.0)
    return episode(number, reward, *calls, by_call=by_call)


def test_calls_that_merged_keep_their_own_advantages_token_by_token() -> None:
    rewarded = [
        conversation(1, 0.0, "a", by_call={"chatcmpl-a1": 1.0, "call_a2": -1.0}),
        conversation(2, 0.0, "b", by_call={"msg_b1": 0.0, "resp_b2": 2.0}),
    ]
    first, second = batch_samples(batch(rewarded), normalize=False)
    assert first.advantages_T == (0.0, 0.5, 0.5, 0.0, -1.5)
    assert second.advantages_T == (0.0, -0.5, -0.5, 0.0, 1.5)
    assert first.advantage == pytest.approx(-0.5 / 3)
    assert (first.mask_T, first.weight) == ((0, 1, 1, 0, 1), 1.0)


def test_an_unnamed_call_is_credited_with_its_episode() -> None:
    rewarded = [conversation(1, 1.0, "a", by_call={"chatcmpl-a1": 3.0}), conversation(2, 0.0, "b")]
    samples = batch_samples(batch(rewarded), normalize=False)
    assert [sample.advantages_T for sample in samples] == [(0.0, 1.5, 1.5, 0.0, 0.5), (0.0, -1.5, -1.5, 0.0, -0.5)]


def test_rewards_by_call_that_say_what_the_episode_says_change_no_sample() -> None:
    plain = [conversation(1, 1.0, "a"), conversation(2, 0.25, "b")]
    named = [
        conversation(1, 1.0, "a", by_call={"chatcmpl-a1": 1.0, "chatcmpl-a2": 1.0}),
        conversation(2, 0.25, "b", by_call={"chatcmpl-b2": 0.25}),
    ]
    samples = batch_samples(batch(plain), normalize=True)
    assert samples == batch_samples(batch(named), normalize=True)
    assert [sample.advantages_T for sample in samples] == [None, None]


def test_parallel_calls_are_compared_in_the_order_in_which_they_began() -> None:
    """The journal has them as they ended."""
    late, early = call("call_y", [9], [2], begun_at=2.0), call("call_x", [1], [2], begun_at=1.0)
    members = [
        episode(1, 0.0, late, early, by_call={"call_x": 1.0, "call_y": 5.0}),
        episode(2, 0.0, call("call_u", [1], [3], begun_at=1.0), call("call_v", [9], [3], begun_at=2.0)),
    ]
    samples = batch_samples(batch(members), normalize=False)
    assert [(sample.token_ids_T, sample.advantage) for sample in samples] == [
        *(((9, 2), 2.5), ((1, 2), 0.5)),
        *(((1, 3), -0.5), ((9, 3), -2.5)),
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
    samples = batch_samples(batch(members), normalize=False)
    assert [sample.advantage for sample in samples] == [-0.5, -5.0, 0.5, 5.0]


@pytest.mark.parametrize(
    ("rewards", "by_call", "skipped"),
    [((1.0, 1.0), None, 1), ((1.0, 1.0), {"call_a2": 0.5}, 0), ((1.0, 0.0), {"call_a1": 0.0, "call_a2": 0.0}, 1)],
)
def test_a_group_is_skipped_iff_no_token_of_it_has_an_advantage(rewards, by_call, skipped) -> None:
    group = [conversation(1, rewards[0], "a", by_call=by_call), conversation(2, rewards[1], "b")]
    samples = batch_samples(batch(group), normalize=True)
    assert batch_statistics(batch(group))["groups_skipped"] == skipped
    assert any(sample.says_something for sample in samples) == (not skipped)


def test_statistics_are_measured() -> None:
    found = batch_statistics(
        batch(
            [episode(1, 1.0, call("a", [1], [2, 3])), episode(2, 0.0, call("b", [1], [2]), version=1)],
            [episode(3, 0.5, call("c", [1], [2])), episode(4, 0.5, call("d", [1], [2]))],
        )
    )
    assert found == pytest.approx(
        {
            **{"reward_mean": 0.5, "reward_std": 0.3535533, "episodes": 4, "groups": 2, "groups_skipped": 1},
            **{"staleness_max": 2, "completion_length_mean": 1.25},
        }
    )


def test_equal_episodes_are_trained_where_their_calls_earned_differently() -> None:
    """And left out where nothing did, whatever their rewards."""
    differ = [conversation(1, 1.0, "a", by_call={"call_a2": 0.5}), conversation(2, 1.0, "b")]
    level = {name: 0.0 for name in ("call_c1", "call_c2", "call_d1", "call_d2")}
    equal = [conversation(3, 1.0, "c", by_call=level), conversation(4, 0.0, "d", by_call=level)]
    found = trainable(batch(differ, equal), SessionConfig())
    assert [sample.group for sample in found] == [0, 0]
