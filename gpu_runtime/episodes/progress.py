"""What is said of the coming batch and of episodes that will never be in one. No torch in here."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_runtime.episodes.advice.level_groups import FIRST_BATCHES, level_groups_events, no_reward
from gpu_runtime.events import Events
from gpu_runtime.journal.records import PROMPT_KEY, EpisodeRecord
from gpu_runtime.loop.batching import Group
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import EpisodeState, RefusedCalls
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.runtime import PHASE_WAITING

MAX_COUNTS = 2  # how many sizes of groups that wait are told apart
MAX_TASK = 40  # characters of its name
MAX_TASKS = 5  # that an event names


@dataclass(frozen=True)
class EpisodeNoted:
    """Something is to be said about one episode: ``data`` is the event for the session's record."""

    data: dict[str, Any]


@dataclass(frozen=True)
class EpisodesDropped:
    """Episodes that ended with a reward will not be trained."""

    records: Sequence[EpisodeRecord]
    why: str
    hint: str = ""  # what to do


@dataclass(frozen=True)
class GroupsSetAside:
    """Groups without a gradient make no part of ``step``. ``spreads``: how far the answers of each
    group that was set aside on the way to it spread, these last.
    """

    step: int
    spreads: Sequence[float]
    groups: Sequence[Group]
    before: Sequence[Mapping[str, Any]] = ()  # what the last steps measured, three at most


@dataclass(frozen=True)
class EpisodeOver:
    """An episode was open and is not any more."""

    record: EpisodeRecord


def waiting_phase(
    waiting: Mapping[str, int], grpo_n: int, tasks_per_batch: int, *, is_early: bool = False
) -> str:
    """The phase of a runtime that waits for episodes. ``waiting``: ended episodes per group key,
    none in a batch yet. ``is_early``: a batch is full, and waits for open episodes that would be
    too old after its step.

    Example: ``waiting_phase({"17": 6, "18": 6}, grpo_n=8, tasks_per_batch=4) ==
    "waiting for episodes: 0 of 4 groups complete; 2 groups wait with 6 of 8; task 17 lacks 2"``.
    """
    full = sum(count // grpo_n for count in waiting.values())
    partial = {key: count % grpo_n for key, count in waiting.items() if count % grpo_n}
    if not full and not partial:
        return PHASE_WAITING
    parts = [f"{full} of {tasks_per_batch} groups complete"]
    if is_early:  # first: a long phase is cut
        parts.append("the step waits for open episodes that it would make stale")
    if partial:
        sizes = Counter(partial.values()).most_common()
        said = [
            f"{many} {'groups wait' if many > 1 else 'group waits'} with {have} of {grpo_n}"
            for have, many in sizes
        ]
        others = sum(many for _, many in sizes[MAX_COUNTS:])
        parts.append(
            ", ".join(said[:MAX_COUNTS]) + (f", {others} with other numbers" if others else "")
        )
        fullest = max(partial, key=lambda key: partial[key])  # of equals the first
        is_named = not fullest.startswith(PROMPT_KEY)
        task = f"task {fullest[:MAX_TASK]}" if is_named else "a task without a name"
        parts.append(f"{task} lacks {grpo_n - partial[fullest]}")
    return f"{PHASE_WAITING}: {'; '.join(parts)}"


log = logging.getLogger(__name__)
Report = Callable[[EventKind, dict[str, Any], str], None]


def episodes_follow(events: Events, report: Report, config: SessionConfig) -> None:
    """Put on the session's record what is published about episodes, from now on."""
    # rewards of the groups that were set aside since the last step
    seen: Counter[float] = Counter()
    # reasons of the episodes that were over without a reward, since the last one
    unrewarded: Counter[str] = Counter()
    most = FIRST_BATCHES * config.tasks_per_batch * config.grpo_n
    last_step = 0

    def noted(event: EpisodeNoted) -> None:
        report(EventKind.EVENT, event.data, f"{event.data['name']} {event.data['episode_id']}")

    def dropped(event: EpisodesDropped) -> None:
        data = episodes_stale(event.records, event.why, event.hint)
        report(EventKind.EVENT, data, f"episodes_stale {event.records[0].id} {len(event.records)}")

    def set_aside(event: GroupsSetAside) -> None:
        nonlocal last_step
        if event.step != last_step:
            seen.clear()
            last_step = event.step
        seen.update(episode.reward for group in event.groups for episode in group.episodes)
        total, tasks = len(event.spreads), config.tasks_per_batch
        for data in level_groups_events(
            event.step, event.spreads, event.groups, seen, event.before, tasks
        ):
            log.warning("%s", data["reason"])
            report(EventKind.EVENT, data, f"{data['name']} {event.step} {total // tasks}")

    def over(event: EpisodeOver) -> None:
        if event.record.state is EpisodeState.COMPLETED:
            unrewarded.clear()
            return
        if unrewarded.total() == most:  # said already; a loop can go on so for days
            return
        unrewarded[event.record.reason or event.record.state.value] += 1
        if unrewarded.total() == most:
            data = no_reward(unrewarded.total(), unrewarded)
            log.warning("%s", data["reason"])
            report(EventKind.EVENT, data, f"no_reward {event.record.id}")

    events.subscribe(EpisodeOver, over)
    events.subscribe(EpisodeNoted, noted)
    events.subscribe(EpisodesDropped, dropped)
    events.subscribe(GroupsSetAside, set_aside)


def calls_refused(episode_id: str, refused: RefusedCalls) -> dict[str, Any]:
    """The event about it, without the messages: they may quote what the agent sent, and are erased
    with the episode."""
    last, many = refused.last[-1], "1 call" if refused.count == 1 else f"{refused.count} calls"
    were = "was" if refused.count == 1 else "were"
    event = {"name": "calls_refused", "episode_id": episode_id, "count": refused.count}
    reason = (
        f"{many} of episode {episode_id} {were} refused, the last with {last.status} at {last.path}"
    )
    return event | {
        "reason": reason,
        "hint": "Its page has the messages, and so has tinkerscript episodes --list.",
    }


def episodes_stale(records: Sequence[EpisodeRecord], why: str, hint: str) -> dict[str, Any]:
    """The event about episodes that were ended with a reward and will not be trained. It names an
    episode of each task: the question of one without a name is read there, and erased with it.
    """
    by_key: dict[str, list[EpisodeRecord]] = {}
    for record in records:
        by_key.setdefault(record.group_key or "", []).append(record)
    most = sorted(by_key.items(), key=lambda group: -len(group[1]))[:MAX_TASKS]
    n = len(records)
    return {
        "name": "episodes_stale",
        "n": n,
        "why": why,
        "tasks": [key for key, _ in most],
        "episode_ids": [members[0].id for _, members in most],
        "reason": f"{n} ended {'episodes were' if n > 1 else 'episode was'} dropped and will not "
        f"be trained: {why}",
        "hint": hint,
    }
