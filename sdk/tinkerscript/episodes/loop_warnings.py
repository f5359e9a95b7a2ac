"""Warns of loops whose episodes never train: those that move on before a task's group is full, and
those that never end their episodes, by either way of beginning them.

Attempts may come task by task, or in rounds over all tasks, or from many threads. A group is left
behind when a batch of groups that began after its last attempt have got as many attempts as it has:
in rounds, no group begins so late. While an episode is open, or about to be, whose begin was asked
for before, it may be one of the group's.

A loop whose every episode is of a task of its own leaves no group behind and fills none: that is
told after as many episodes as make a step. It may be the first of rounds over many tasks, which
only its author knows.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tinkerscript.wire.episodes import EpisodeView, SampleFate

MAX_GROUPS = 4096  # what is kept of the groups that are not full; the server reports on all of them
SAME_TASK = "Give begin_episode() the same task for each attempt at it, and make that many."
SAME_PROMPT = (
    "Without a task those with the same first prompt are one group, and each had another: give"
    " begin_episode(task=...) the same task for each attempt at it, and make that many."
)
log = logging.getLogger("tinkerscript")


@dataclass
class _Group:
    task: str
    first: int  # which attempt of the session was its first, and its last
    last: int
    attempts: int = 0


class GroupWatch:
    """Counts the attempts of each group; warns once. Safe to share between threads."""

    def __init__(self, grpo_n: int, tasks_per_batch: int) -> None:
        self._grpo_n, self._later = grpo_n, max(2, tasks_per_batch)
        # attempts before each open episode, and before each begin under way
        self._open: dict[object, int] = {}
        self._groups: dict[str, _Group] = {}
        self._attempts = 0
        self._has_repeated = False  # whether any task has a second attempt
        self._warned = False
        self._lock = threading.Lock()

    def after_fork(self) -> None:
        """The lock may have been held by a thread of the parent."""
        self._lock = threading.Lock()

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """While an episode is asked for: the answers to several threads come in any order."""
        request = object()
        self.begun(request)
        try:
            yield
        finally:
            with self._lock:
                del self._open[request]

    def begun(self, episode_id: object) -> None:
        """An episode that is open from now on."""
        with self._lock:
            self._open[episode_id] = self._attempts

    def closed(self, episode_id: str, ended: EpisodeView | None) -> None:
        """An episode that is over: warn if it shows that an earlier group was left behind, or that
        none ever fills.
        """
        with self._lock:  # at once: another thread must not find it neither open nor counted
            self._open.pop(episode_id, None)
            if (
                ended is None
                or ended.eval
                or ended.fate is not SampleFate.ACCEPTED
                or ended.group_key is None
            ):
                return
            self._attempts += 1
            group = self._groups.setdefault(
                ended.group_key, _Group(ended.task or "", self._attempts, self._attempts)
            )
            group.last, group.attempts = self._attempts, group.attempts + 1
            self._has_repeated = self._has_repeated or group.attempts > 1
            if group.attempts >= self._grpo_n:
                del self._groups[ended.group_key]
            elif len(self._groups) > MAX_GROUPS:
                del self._groups[next(iter(self._groups))]
            left = None if self._warned else self._left_behind()
            self._warned = self._warned or left is not None
            only_singles = not self._has_repeated and self._attempts == self._later * self._grpo_n
        if left is not None:
            log.warning(
                "Task %r has %d attempts and other tasks have begun since; a group is trained once "
                "it has grpo_n=%d. Make that many attempts per task, or set grpo_n=%d.",
                left.task or "(the first prompt)",
                left.attempts,
                self._grpo_n,
                max(2, left.attempts),
            )

        if only_singles:
            log.warning(
                "%d episodes have ended, and no two of them are attempts at one task; a group is "
                "trained once it has"
                " grpo_n=%d. %s If attempts come in rounds over more tasks than that, go on.",
                self._attempts,
                self._grpo_n,
                SAME_TASK if ended.task is not None else SAME_PROMPT,
            )

    def _left_behind(self) -> _Group | None:
        oldest = min(self._groups.values(), key=lambda group: group.last, default=None)
        if oldest is None or oldest.attempts < 2:
            return None
        if any(attempts_before < oldest.last for attempts_before in self._open.values()):
            return None
        later = [
            g
            for g in self._groups.values()
            if g.first > oldest.last and g.attempts >= oldest.attempts
        ]
        return oldest if len(later) >= self._later else None


TOLD_AFTER = 3  # one may be of an agent that raised
SUPERSEDED, NOT_ENDED = "abandoned (superseded)", "abandoned (not_ended)"
WORDS = {
    SUPERSEDED: (
        "%d episodes in a row were begun and never ended: the next begin abandoned each "
        "(superseded), and none is trained. Where the agent raised an exception that the loop "
        "passed over, look at that; abort_episode(error) records it. Where it did not, call "
        "end_episode(reward) when it is done. What raises in the block of `with "
        "session.episode(task) as (base_url, api_key)` is recorded by itself."
    ),
    NOT_ENDED: (
        "%d blocks of `with session.episode(task)` in a row were left without an end: each episode "
        "was abandoned (not_ended), and none is trained. Call end_episode(reward) in the block "
        "when the agent is done."
    ),
}


class NeverEnded:
    """Of one session: episodes in a row, of all threads and tasks, that were begun and not
    ended."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def closed(self, because: str | None, refused_end: str) -> None:
        """An episode is over, for what ``EpisodeState.closed_because`` has; ``refused_end`` as
        there.
        """
        if self._in_a_row >= TOLD_AFTER:  # told once
            return
        self._in_a_row = self._in_a_row + 1 if because in WORDS else 0
        if because in WORDS and self._in_a_row == TOLD_AFTER:
            seen = f" The end of the last one was refused: {refused_end}" if refused_end else ""
            log.warning(WORDS[because] + "%s", TOLD_AFTER, seen)
