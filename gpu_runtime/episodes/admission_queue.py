"""Where a begin waits for its turn: in order of arrival, until its episode would not be sampled in vain."""

import asyncio
import secrets
from collections import Counter
from dataclasses import dataclass

from gpu_runtime.episodes.batches import Batches
from gpu_runtime.episodes.grouping import batch_is_covered, task_helps
from gpu_runtime.episodes.open_episode import OpenEpisode
from gpu_runtime.episodes.open_episodes import OpenEpisodes
from gpu_runtime.notifier import ChangeNotifier
from gpu_runtime.refusals import NotAdmitted
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import EpisodeBegin

# Threads and coroutines that run a loop side by side arrive out of its order. An episode that does not help the coming
# batch lets others go first for so long once episodes are admitted; longer would make a loop over interleaved tasks one
# episode at a time.
SORT_S = 0.5


@dataclass(eq=False)
class _WaitingBegin:
    """A begin that waits. ``arrived`` is the loop's time."""

    request: EpisodeBegin
    arrived: float
    reason: str = ""
    episode: OpenEpisode | None = None


class AdmissionQueue:
    """Adds each episode that it admits to ``open_episodes``, which it shares with the ledger."""

    def __init__(
        self,
        config: SessionConfig,
        batches: Batches,
        open_episodes: OpenEpisodes,
        changes: ChangeNotifier,
    ) -> None:
        self._config, self._batches, self._open, self._changes = config, batches, open_episodes, changes
        self._waiting: list[_WaitingBegin] = []
        self._looked = (-1, 0.0)  # changes and loop time at the last look
        self._held_at = 0.0  # loop time when a begin was last held because none could be of use

    async def enter(self, request: EpisodeBegin, *, hold_s: float) -> OpenEpisode:
        """A new open episode, not yet in the journal. Raises NotAdmitted after ``hold_s`` seconds."""
        loop = asyncio.get_running_loop()
        waiting = _WaitingBegin(request, loop.time())
        self._waiting.append(waiting)
        self._looked = (-1, 0.0)
        try:
            while True:
                self._admit_in_order(loop.time())
                if waiting.episode is not None:
                    return waiting.episode
                left_s = waiting.arrived + hold_s - loop.time()
                if left_s <= 0:
                    raise NotAdmitted(waiting.reason)
                await self._changes.wait(min(left_s, SORT_S))
        except asyncio.CancelledError:
            if waiting.episode is not None:  # another waiter admitted it, and it was cancelled before it woke
                self.leave(waiting.episode)
            raise
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def leave(self, episode: OpenEpisode) -> None:
        """An episode that was admitted and never begun."""
        self._open.remove(episode.id)
        self._changes.notify()

    def _admit_in_order(self, time: float) -> None:
        # Each waiter that wakes looks for all: the order of waking does not matter. Once per change is enough.
        if self._looked[0] == self._changes.count and time < self._looked[1] + SORT_S / 10:
            return
        self._looked = (self._changes.count, time)
        for waiting in list(self._waiting):
            reason = self._reason_to_wait(waiting, time)
            if reason is None:
                self._waiting.remove(waiting)
                waiting.episode = self._admit(waiting.request)
            else:
                waiting.reason = reason

    def _admit(self, request: EpisodeBegin) -> OpenEpisode:
        now = self._open.now()
        episode = OpenEpisode(
            id=f"epi_{secrets.token_hex(8)}",
            eval=request.eval,
            group_key=request.task,
            begun_at=now,
            deadline_at=now + (request.timeout_s or self._config.episode_timeout_s),
            last_seen=now,
        )
        self._open.add(episode)
        return episode

    def _reason_to_wait(self, waiting: _WaitingBegin, time: float) -> str | None:
        batches, config, request = self._batches, self._config, waiting.request
        if batches.is_over:
            return None
        if batches.pending() > config.max_staleness:
            self._held_at = time
            return "a training step is about to run or running"
        if request.eval or config.max_staleness > 0:
            return None
        # Those that began to sample under older weights will be stale: they fill nothing.
        useful = [e for e in self._open.all() if not e.eval and e.is_live(self._open.now())]
        useful = [e for e in useful if e.version_first is None or e.version_first >= batches.policy_version]
        completed = Counter(record.group_key or "" for record in batches.waiting.values())
        known = Counter(e.group_key for e in useful if e.group_key is not None)
        unknown = sum(e.group_key is None for e in useful)
        size = {"grpo_n": config.grpo_n, "tasks_per_batch": config.tasks_per_batch}
        if batch_is_covered(completed=completed, open_known=known, open_unknown=unknown, **size):
            self._held_at = time
            return "the open episodes already fill the coming batch"
        # Of hundreds that waited for a step together each has waited long: what counts is since when they may go.
        if not request.task or not useful or time - max(waiting.arrived, self._held_at) >= SORT_S:
            return None
        helps = task_helps(request.task, completed=completed, open_known=known, **size)
        return None if helps else "episodes of other tasks go first"
