"""What is said of the coming batch and of episodes that will never be in one. Pure functions; no torch in here."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gpu_runtime.journal.records import EpisodeRecord
from tinkerscript.wire.episodes import RefusedCalls
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.runtime import PHASE_WAITING

MAX_COUNTS = 2  # how many sizes of groups that wait are told apart
MAX_TASK = 40  # characters of its name
MAX_TASKS = 5  # that an event names


def waiting_phase(waiting: Mapping[str, int], grpo_n: int, tasks_per_batch: int, *, is_early: bool = False) -> str:
    """The phase of a runtime that waits for episodes. ``waiting``: ended episodes per group key, none in a batch yet.
    ``is_early``: a batch is full, and waits for open episodes that would be too old after its step.

    Example: ``waiting_phase({"17": 6, "18": 6}, grpo_n=8, tasks_per_batch=4) ==
    "waiting for episodes: 0 of 4 groups complete; 2 groups wait with 6 of 8; task 17 lacks 2"``.
    """
    full = sum(count // grpo_n for count in waiting.values())
    partial = {key: count % grpo_n for key, count in waiting.items() if count % grpo_n}
    if not full and not partial:
        return PHASE_WAITING
    parts = [f"{full} of {tasks_per_batch} groups complete"]
    if partial:
        sizes = Counter(partial.values()).most_common()
        said = [
            f"{many} {'groups wait' if many > 1 else 'group waits'} with {have} of {grpo_n}" for have, many in sizes
        ]
        others = sum(many for _, many in sizes[MAX_COUNTS:])
        parts.append(", ".join(said[:MAX_COUNTS]) + (f", {others} with other numbers" if others else ""))
        fullest = max(partial, key=lambda key: partial[key])  # of equals the first
        parts.append(f"task {fullest[:MAX_TASK]} lacks {grpo_n - partial[fullest]}")
    if is_early:
        parts.append("the step waits for open episodes that it would make stale")
    return f"{PHASE_WAITING}: {'; '.join(parts)}"


Report = Callable[[EventKind, dict[str, Any], str], None]


def episode_event_report(report: Report, event: dict[str, Any]) -> None:
    """Put an event about one episode into the session's record, once for each of its names."""
    report(EventKind.EVENT, event, f"{event['name']} {event['episode_id']}")


def calls_refused(episode_id: str, refused: RefusedCalls) -> dict[str, Any]:
    """The event about it, without the messages: they may quote what the agent sent, and are erased
    with the episode."""
    last, many = refused.last[-1], "1 call" if refused.count == 1 else f"{refused.count} calls"
    were = "was" if refused.count == 1 else "were"
    event = {"name": "calls_refused", "episode_id": episode_id, "count": refused.count}
    reason = f"{many} of episode {episode_id} {were} refused, the last with {last.status} at {last.path}"
    return event | {
        "reason": reason,
        "hint": "Its page has the messages, and so has tinkerscript episodes --list.",
    }


def dropped_report(report: Report, records: Sequence[EpisodeRecord], why: str, hint: str) -> None:
    """Put the event about ``records`` into the session's record."""
    data = episodes_stale([record.group_key for record in records], why, hint)
    report(EventKind.EVENT, data, f"episodes_stale {records[0].id} {len(records)}")


def episodes_stale(group_keys: Iterable[str | None], why: str, hint: str) -> dict[str, Any]:
    """The event about episodes that were ended with a reward and will not be trained; a group key of each."""
    tasks: Sequence[tuple[str, int]] = Counter(key or "" for key in group_keys).most_common()
    n = sum(count for _, count in tasks)
    return {
        "name": "episodes_stale",
        "n": n,
        "why": why,
        "tasks": [task for task, _ in tasks[:MAX_TASKS]],
        "reason": f"{n} ended {'episodes were' if n > 1 else 'episode was'} dropped and will not be trained: {why}",
        "hint": hint,
    }
