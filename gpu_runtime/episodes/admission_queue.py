"""Where a begin waits for its turn: in order of arrival, until its episode would not be sampled in
vain.
"""

import asyncio
import secrets
from dataclasses import dataclass

from gpu_runtime.episodes.batches import Batches
from gpu_runtime.episodes.grouping import Places
from gpu_runtime.episodes.open_episodes import OpenEpisode, OpenEpisodes
from gpu_runtime.notifier import ChangeNotifier
from gpu_runtime.refusals import NotAdmitted
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import EpisodeBegin

# Threads and coroutines that run a loop side by side arrive out of its order. Where a loop over
# interleaved tasks has begun more groups than can be trained in time, one more lets attempts at
# those go first for so long; longer would make such a loop one episode at a time.
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
        self._config, self._batches, self._open, self._changes = (
            config,
            batches,
            open_episodes,
            changes,
        )
        self._waiting: list[_WaitingBegin] = []
        self._looked = (-1, 0.0)  # changes and loop time at the last look
        self._held_at = 0.0  # loop time when a begin was last held because none could be of use

    async def enter(self, request: EpisodeBegin, *, hold_s: float) -> OpenEpisode:
        """A new open episode, not yet in the journal. Raises NotAdmitted after ``hold_s``
        seconds.
        """
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
            # another waiter admitted it, and it was cancelled before it woke
            if waiting.episode is not None:
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
        # Each waiter that wakes looks for all: the order of waking does not matter. Once per change
        # is enough.
        if self._looked[0] == self._changes.count and time < self._looked[1] + SORT_S / 10:
            return
        self._looked = (self._changes.count, time)
        places = self._batches.places()
        for waiting in list(self._waiting):
            reason = self._reason_to_wait(waiting, time, places)
            if reason is None:
                self._waiting.remove(waiting)
                waiting.episode = self._admit(waiting.request)
                places = self._batches.places()
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

    def _reason_to_wait(self, waiting: _WaitingBegin, time: float, places: Places) -> str | None:
        batches, config, request = self._batches, self._config, waiting.request
        if batches.is_over:
            return None
        if batches.pending() > config.max_staleness:
            self._held_at = time
            return "a training step is about to run or running"
        if request.eval:
            return None
        if places.has_room and places.admit(request.task or None):
            return None
        if not batches.pending() and not places.has_open:
            # Nothing else brings a step nearer: a loop that runs one episode at a time is never
            # held
            return None
        if not places.has_room:
            self._held_at = time
            return (
                f"{len(places.episodes)} episodes are begun, as many as max_staleness allows: "
                "one has to end first"
            )
        if not places.is_exceeded and not self._open.is_quiet():
            self._held_at = time
            return "attempts at the tasks that are begun go first"
        # Of hundreds that waited for a step together each has waited long: what counts is since
        # when they may go.
        is_sorted = time - max(waiting.arrived, self._held_at) >= SORT_S
        return None if is_sorted else "attempts at the tasks that are begun go first"
