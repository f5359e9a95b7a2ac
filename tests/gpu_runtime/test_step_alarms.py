"""What a session is told of a reward that cannot teach, of a policy that collapses, and of steps
that go astray.
"""

import math
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from gpu_runtime.episodes.advice.level_groups import level_groups_events, rewards_text
from gpu_runtime.episodes.advice.step_alarms import step_alarms
from gpu_runtime.episodes.advice.steps import LONGER, advice
from gpu_runtime.episodes.progress import EpisodeOver, GroupsSetAside, episodes_follow
from gpu_runtime.events import Events
from gpu_runtime.loop.batching import Group
from support.trained_batches import call, episode
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import EpisodeState, WorkflowOutput

FINE = {
    "entropy": 1.0, "groups": 4, "groups_skipped": 0, "reward_mean": 0.5, "grad_norm": 2.0, "staleness_max": 0,
    "completion_length_mean": 100.0, "engine_gap_far": 0.0, "engine_gap_p50": 0.01,
}  # fmt: skip
LAST = {
    "step": 7,
    "learning_rate": 2e-5,
    "entropy": 0.03,
    "kl_before": 0.0,
    "kl_engine": 0.002,
    "answers_distinct": 0.5,
}


def group(*rewards: float) -> Group:
    return Group(
        "t", tuple(episode(n, reward, call(f"c{n}", [1], [2])) for n, reward in enumerate(rewards))
    )


def cut_call(call_id: str) -> Any:
    of_one = call(call_id, [1], [2])
    return replace(of_one, completions=(replace(of_one.completions[0], finish_reason="length"),))


def names(*changes: dict) -> list[list[str]]:
    """Of each step the alarms that it gives rise to, of a run of such steps."""
    run = [FINE | {"step": at} | change for at, change in enumerate(changes, start=1)]
    history = [
        [*run[: min(3, at)], *run[max(min(3, at), at - 4) : at]] for at in range(1, len(run) + 1)
    ]
    return [
        [event["name"] for event in step_alarms(at, each, 1.0)]
        for at, each in enumerate(history, start=1)
    ]


def test_a_gradient_far_above_its_clip_is_told_once_it_has_lasted() -> None:
    high = {"grad_norm": 41.0}
    assert names({}, high, high, {}) == [[]] * 4, "two steps are noise"
    assert names({}, {}, high, high, high, high) == [[], [], [], [], ["gradient_norm_high"], []]


# Of four runs: three of the quickstart, which learned, and one at whose rate nothing collapsed.
@pytest.mark.parametrize(
    "norms",
    [
        [6.65, 7.26, 12.06, 8.86, 24.13, 30.96],
        [6.65, 7.27, 13.23, 15.94, 46.8, 22.89, 36.75],
        [7.17, 7.23, 10.93, 15.22, 12.26, 13.73, 12.18, 18.54],
        [12.3, 10.9, 9.17, 8.9, 8.7, 17.4],
    ],
)
def test_a_run_that_learns_gives_no_alarm_of_its_gradient(norms: list[float]) -> None:
    assert names(*[{"grad_norm": norm} for norm in norms]) == [[]] * len(norms)


@pytest.mark.parametrize("length", [210.0, 40.0])
def test_answers_whose_length_drifts_either_way_are_told_once(length: float) -> None:
    drifted = {"completion_length_mean": length}
    assert names({}, {}, {}, *[drifted] * 4) == [[], [], [], [], [], ["length_drift"], []]
    assert names(*[{}] * 7) == [[]] * 7


def test_an_engine_that_is_off_is_told_and_one_far_token_is_not() -> None:
    assert names({"engine_gap_far": 1e-4}) == [[]], "one of ten thousand"
    one_of_400 = {"engine_gap_far": 1 / 400, "tokens_trained": 400}
    assert names(one_of_400, one_of_400) == [[], []], "one of a small step"
    assert names({"engine_gap_far": 2 / 400, "tokens_trained": 400}) == [["engine_gap"]]
    assert names({"engine_gap_far": 0.01}, {"engine_gap_far": 0.02}) == [["engine_gap"], []]
    assert names({"engine_gap_p50": 0.3}) == [["engine_gap"]]
    assert names({"engine_gap_p50": 0.3, "staleness_max": 1}) == [[]], (
        "older weights differ by what was learned"
    )


def test_a_reward_that_tells_no_attempt_from_another_is_named_after_two_batches_with_what_was_seen() -> (
    None
):
    groups = [group(0.0, 0.0), group(1.0, 1.0)]
    assert level_groups_events(1, [1.0] * 2, groups, {}, [], 2) == []
    (told,) = level_groups_events(1, [1.0] * 4, groups, {0.0: 4, 1.0: 4}, [], 2)
    assert (
        told["name"] == "reward_level"
        and "seen: 4 times 0, 4 times 1" in told["reason"]
        and "reward" in told["hint"]
    )
    assert level_groups_events(8, [1.0] * 4, groups, {}, [LAST], 2) == [], (
        "after a step it has taught something"
    )
    assert rewards_text({n / 10: 1 for n in range(7)}).endswith("2 other values")


def test_where_answers_were_cut_off_that_is_what_to_do_first() -> None:
    cut = [Group("t", tuple(episode(n, 0.0, cut_call(f"c{n}")) for n in range(2)))]
    (told,) = level_groups_events(1, [1.0] * 2, cut * 2, {0.0: 4}, [], 1)
    assert told["name"] == "reward_level" and told["hint"].startswith(LONGER)
    level = FINE | {"groups_skipped": 4, "truncated": 0.6}
    assert all(each["hint"].startswith(LONGER) for each in advice(2, [level, level]))
    (told,) = advice(3, [FINE | {"truncated": 0.6}] * 3)
    assert told["name"] == "answers_truncated" and "More than half" not in told["hint"], "said"


def test_what_is_counted_as_level_is_named_with_what_was_set_aside() -> None:
    few = FINE | {"groups_skipped": 3}
    (told,) = advice(3, [few, few, few])
    assert told["reason"].startswith("75% of 12 groups") and "aside" not in told["reason"]
    (told,) = advice(3, [few, few, few | {"groups_replaced": 28}])
    assert told["reason"].startswith("92% of 40 groups") and "28 that were set" in told["reason"]


def test_a_reward_that_tells_nothing_is_named_where_a_kl_term_makes_the_steps() -> None:
    level = FINE | {"groups_skipped": 4, "reward_p10": 0.0, "reward_p50": 0.0, "reward_p90": 0.25}
    (told,) = advice(2, [level, level])
    assert told["name"] == "reward_level" and "nine tenths up to 0.25" in told["reason"]
    assert advice(2, [FINE, level]) == []
    of_lengths = level | {"groups_skipped": 0, "groups_level": 4}
    (told,) = advice(2, [of_lengths, of_lengths])
    assert told["name"] == "reward_level", "another term tells the attempts apart, not the reward"
    assert advice(2, [of_lengths, of_lengths | {"groups_level": 3}]) == []


def test_answers_that_are_the_same_are_told_of_groups_that_were_set_aside_too() -> None:
    told = level_groups_events(8, [0.0] * 6, [group(1.0, 1.0)] * 2, {1.0: 12}, [LAST], 2)
    assert [event["name"] for event in told] == ["answers_collapse", "nothing_to_learn"]
    again = level_groups_events(8, [0.0] * 12, [group(1.0, 1.0)] * 2, {1.0: 24}, [LAST], 2)
    assert [event["name"] for event in again] == ["nothing_to_learn"]
    alike = LAST | {"answers_distinct": 0.01}
    for steps, count in (([LAST, alike, alike], 2), ([alike] * 3, 1)):
        told = level_groups_events(8, [0.0] * 6, [group(1.0, 1.0)] * 2, {1.0: 12}, steps, 2)
        assert len(told) == count, "three steps have told it, two have not"


def test_after_a_collapse_the_rate_the_entropy_and_the_kl_are_named() -> None:
    told = level_groups_events(8, [0.0] * 6, [group(1.0, 1.0)] * 2, {1.0: 12}, [LAST], 2)[-1]
    assert "learning_rate 2e-05, an entropy of 0.03 and a KL of 0.002" in told["reason"]
    assert (told["learning_rate"], told["entropy"], told["kl"]) == (2e-5, 0.03, 0.002)
    assert "quarter of the learning_rate" in told["hint"]
    spread = level_groups_events(8, [1.0] * 6, [group(1.0, 1.0)] * 2, {1.0: 12}, [LAST], 2)[-1]
    assert "learning_rate" not in spread["reason"] and "temperature" in spread["hint"]


def test_one_answer_for_every_task_is_told_where_its_other_words_differ() -> None:
    groups, spreads = [group(0.0, 0.0), group(1.0, 1.0)], [0.96] * 6
    seen = {0.0: 9, 1.0: 3}
    (told,) = level_groups_events(8, spreads, groups, seen, [LAST], 2)
    assert told["name"] == "nothing_to_learn" and "9 times 0, 3 times 1" in told["reason"]
    assert "learning_rate 2e-05, an entropy of 0.03" in told["reason"]
    assert "one answer has taken over" in told["hint"] and "temperature" in told["hint"]
    (told,) = level_groups_events(8, spreads, groups[:1] * 2, {0.0: 12}, [LAST], 2)
    assert "taken over" not in told["hint"], "no task earned what another did not"
    *_, told = level_groups_events(1, spreads, groups, seen, [], 2)
    assert "taken over" not in told["hint"], "before a step no answer can"


def test_a_loop_whose_episodes_never_end_with_a_reward_is_told_after_as_many_as_two_batches() -> (
    None
):
    with pytest.raises(ValidationError):
        WorkflowOutput(reward=math.nan)
    told: list[dict] = []
    events = Events()
    config = SessionConfig(grpo_n=2, tasks_per_batch=2)
    episodes_follow(events, lambda kind, data, key: told.append(data), config)

    def over(count: int, **fields) -> None:
        for n in range(count):
            events.publish(
                EpisodeOver(replace(episode(n, 0.0, call("c", [1], [2])).record, **fields))
            )

    over(7, state=EpisodeState.ABANDONED, reason="superseded")
    over(1)
    over(7, state=EpisodeState.ABANDONED, reason="superseded")
    assert told == [], "one that ended begins the row anew"
    over(1, state=EpisodeState.EXPIRED, reason="idle")
    (event,) = told
    assert (
        event["name"] == "no_reward"
        and "7 superseded, 1 idle" in event["reason"]
        and "NaN" in event["hint"]
    )
    over(20, state=EpisodeState.EXPIRED, reason="idle")
    assert len(told) == 1


def test_rewards_that_were_seen_are_those_since_the_last_step() -> None:
    told: list[dict] = []
    events = Events()
    episodes_follow(
        events,
        lambda kind, data, key: told.append(data),
        SessionConfig(grpo_n=2, tasks_per_batch=1),
    )
    events.publish(GroupsSetAside(1, [1.0], [group(0.0, 0.0)]))
    events.publish(GroupsSetAside(1, [1.0, 1.0], [group(0.5, 0.5)]))
    assert [event["name"] for event in told] == [
        "reward_level"
    ] and "2 times 0, 2 times 0.5" in told[0]["reason"]
