"""Samples of a batch: masks, advantages and weights, per episode and not per timeline."""

import pytest

from gpu_runtime.journal_records import CallRecord, Completion, EpisodeRecord
from gpu_runtime.training.batching import Batch, Group, TrainedEpisode, batch_samples, batch_statistics
from tinkerscript.wire.episodes import EpisodeState, WorkflowOutput


def call(name: str, prompt, sampled, agent: str | None = None, status: str = "completed") -> CallRecord:
    message = {"role": "assistant", "content": "x"}
    logprobs = tuple(-0.5 - i for i in range(len(sampled)))
    answer = Completion(0, tuple(sampled), logprobs, (0,) * len(sampled), "x", "stop", message)
    return CallRecord(name, "e", tuple(prompt), (answer,), 0.0, 1.0, agent=agent, status=status)


def episode(number: int, reward: float, *calls: CallRecord, by_agent=None, version: int = 3) -> TrainedEpisode:
    nothing = dict.fromkeys(["task", "fate", "reason", "report", "trained_step"])
    record = EpisodeRecord(
        **{"seq": number, "id": f"e{number}", "group_key": "g", "eval": False, "state": EpisodeState.COMPLETED},
        **{"output": WorkflowOutput(reward=reward, rewards_by_agent=by_agent), "calls": len(calls)},
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
