"""Which ended episodes make a group, and which are too old."""

from dataclasses import replace

from gpu_runtime.episodes.grouping import Begun, Places, full_groups, stale_episodes
from gpu_runtime.journal.records import EpisodeRecord
from tinkerscript.wire.episodes import EpisodeState


def record(seq: int, key: str, end_seq: int, version: int = 0) -> EpisodeRecord:
    nothing = dict.fromkeys(["fate", "reason", "output", "report", "trained_step"])
    return EpisodeRecord(
        **{
            "seq": seq,
            "id": f"e{seq}",
            "task": key,
            "group_key": key,
            "eval": False,
            "calls": 1,
            "sampled_tokens": 1,
        },
        **{
            "state": EpisodeState.COMPLETED,
            "version_first": version,
            "version_last": version,
            "end_seq": end_seq,
        },
        **{"begun_at": 0.0, "deadline_at": 1.0, "ended_at": 1.0},
        **nothing,
    )


def test_groups_are_exact_and_ordered_by_when_they_became_full() -> None:
    waiting = [
        record(1, "a", 9),
        record(2, "b", 1),
        record(3, "b", 2),
        record(4, "a", 3),
        record(5, "a", 4),
    ]
    groups = full_groups(waiting, 2)
    assert [[episode.seq for episode in group] for group in groups] == [[2, 3], [1, 4]]


def test_task_with_twice_as_many_episodes_makes_two_groups() -> None:
    groups = full_groups([record(n, "a", n) for n in range(1, 6)], 2)
    assert [[episode.seq for episode in group] for group in groups] == [[1, 2], [3, 4]]


def test_a_group_that_waited_too_long_is_taken_as_it_is_and_one_episode_alone_is_not() -> None:
    pair, lone = [record(1, "a", 1), record(2, "a", 2)], [record(3, "b", 3)]
    assert full_groups([*pair, *lone], 3, overdue_before=0.5) == []  # all ended at 1
    assert full_groups([*pair, *lone], 3, overdue_before=1.0) == [pair]


def test_staleness_counts_from_the_oldest_token() -> None:
    waiting = [
        replace(record(1, "a", 1, version=3), version_last=5),
        record(2, "a", 2, version=5),
    ]
    assert stale_episodes(waiting, policy_version=5, max_staleness=2) == []
    assert stale_episodes(waiting, policy_version=5, max_staleness=1) == ["e1"]


def test_oldest_tokens_are_trained_first() -> None:
    waiting = [
        record(1, "a", 1, version=1),
        record(2, "a", 2),
        record(3, "a", 3, version=1),
        record(4, "a", 4),
    ]
    groups = full_groups(waiting, 2)
    assert [[episode.seq for episode in group] for group in groups] == [[2, 4], [1, 3]]


def test_no_more_episodes_are_begun_than_the_groups_that_can_be_trained_in_time_hold() -> None:
    begun = [Begun(f"e{n}", "ab"[n % 2], 0, is_open=True) for n in range(4)]
    three, four = Places(2, 2, begun[:3]), Places(2, 2, begun)
    assert three.has_room and not four.has_room
    assert three.admit("b") and not three.admit("a") and not three.admit("c"), (
        "the place that is left is of b"
    )
    assert not four.is_exceeded and Places(1, 2, begun).is_exceeded
