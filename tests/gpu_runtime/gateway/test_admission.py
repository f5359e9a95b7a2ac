"""Strict on-policy admission: no client waits for ever, nothing is sampled in vain."""

from hypothesis import given
from hypothesis import strategies as st

from gpu_runtime.episodes.grouping import batch_is_covered, full_groups, stale_episodes, task_helps
from gpu_runtime.journal.records import EpisodeRecord
from support.generated import any_speed
from tinkerscript.wire.episodes import EpisodeState

counts = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9), max_size=6)


def covered(completed=None, open_known=None, open_unknown=0, grpo_n=4, tasks_per_batch=2) -> bool:
    return batch_is_covered(
        completed=completed or {},
        open_known=open_known or {},
        open_unknown=open_unknown,
        grpo_n=grpo_n,
        tasks_per_batch=tasks_per_batch,
    )


def record(seq: int, key: str, end_seq: int, version: int = 0) -> EpisodeRecord:
    nothing = dict.fromkeys(["fate", "reason", "output", "report", "trained_step"])
    return EpisodeRecord(
        **{"seq": seq, "id": f"e{seq}", "task": key, "group_key": key, "eval": False, "calls": 1, "sampled_tokens": 1},
        **{"state": EpisodeState.COMPLETED, "version_first": version, "version_last": version, "end_seq": end_seq},
        **{"begun_at": 0.0, "deadline_at": 1.0, "ended_at": 1.0},
        **nothing,
    )


@any_speed
@given(counts, st.integers(1, 8), st.integers(1, 4))
def test_loop_with_nothing_open_is_never_held(completed, grpo_n, tasks_per_batch) -> None:
    assert not covered(completed, {}, 0, grpo_n, tasks_per_batch)


@any_speed
@given(counts, counts, st.integers(0, 40), st.integers(1, 8), st.integers(1, 4))
def test_more_open_episodes_never_uncover_a_batch(completed, known, unknown, grpo_n, tasks_per_batch) -> None:
    if covered(completed, known, unknown, grpo_n, tasks_per_batch):
        assert covered(completed, known, unknown + 1, grpo_n, tasks_per_batch)


@any_speed
@given(counts, counts, st.integers(0, 40), st.integers(1, 8), st.integers(1, 4))
def test_covered_means_that_some_completion_of_the_open_ones_fills_the_batch(
    completed, known, unknown, grpo_n, tasks_per_batch
) -> None:
    # Brute force: give each unknown episode to the group that needs the fewest.
    totals = {key: completed.get(key, 0) + known.get(key, 0) for key in {*completed, *known}}
    left, fresh = unknown, 0
    while left:
        partial = [key for key, total in totals.items() if total % grpo_n]
        if partial:
            key = min(partial, key=lambda k: (grpo_n - totals[k] % grpo_n, k))
        else:
            key, fresh = f"new{fresh}", fresh + 1
        totals[key] = totals.get(key, 0) + 1
        left -= 1
    fills = sum(total // grpo_n for total in totals.values()) >= tasks_per_batch
    something_open = unknown > 0 or any(known.values())
    assert covered(completed, known, unknown, grpo_n, tasks_per_batch) == (fills and something_open)


def test_exactly_the_missing_episodes_are_admitted() -> None:
    assert not covered({"a": 4, "b": 2}, {"b": 1})
    assert covered({"a": 4, "b": 2}, {"b": 2})
    assert not covered({}, {}, 7)
    assert covered({}, {}, 8)


def test_task_helps_that_is_on_the_cheapest_way_to_a_full_batch() -> None:
    counts = {"completed": {"a": 4, "b": 2}, "open_known": {"b": 1}, "grpo_n": 4, "tasks_per_batch": 2}
    assert task_helps("b", **counts)
    assert not task_helps("a", **counts)
    assert not task_helps("c", **counts)
    assert task_helps("c", **(counts | {"tasks_per_batch": 3}))


def test_groups_are_exact_and_ordered_by_when_they_became_full() -> None:
    waiting = [record(1, "a", 9), record(2, "b", 1), record(3, "b", 2), record(4, "a", 3), record(5, "a", 4)]
    groups = full_groups(waiting, 2)
    assert [[episode.seq for episode in group] for group in groups] == [[2, 3], [1, 4]]


def test_task_with_twice_as_many_episodes_makes_two_groups() -> None:
    groups = full_groups([record(n, "a", n) for n in range(1, 6)], 2)
    assert [[episode.seq for episode in group] for group in groups] == [[1, 2], [3, 4]]


def test_staleness_counts_from_the_oldest_token() -> None:
    waiting = [record(1, "a", 1, version=3), record(2, "a", 2, version=5)]
    assert stale_episodes(waiting, policy_version=5, max_staleness=2) == []
    assert stale_episodes(waiting, policy_version=5, max_staleness=1) == ["e1"]
