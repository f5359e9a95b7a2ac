"""Where a begin waits for its turn: in order of arrival, until its episode would not be sampled in vain."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from gpu_runtime.gateway.admission import batch_is_covered, task_helps
from gpu_runtime.gateway.batches import Batches
from gpu_runtime.gateway.disk import Bell
from gpu_runtime.gateway.errors import NotAdmitted
from gpu_runtime.gateway.open_episode import OpenEpisode
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import EpisodeBegin

# Threads that run a loop side by side arrive a little out of its order. An episode that does not help the coming batch
# lets others go first for so long; longer would make a loop over interleaved tasks one episode at a time.
SORT_S = 0.5


@dataclass(eq=False)
class _Ticket:
    """One who waits. ``arrived`` is the loop's time."""

    request: EpisodeBegin
    arrived: float
    reason: str = ""
    episode: OpenEpisode | None = None


class Entrance:
    """Adds those whom it admits to ``open_episodes``, which it shares with the ledger; ``now`` is Unix time."""

    def __init__(
        self,
        config: SessionConfig,
        batches: Batches,
        open_episodes: dict[str, OpenEpisode],
        bell: Bell,
        now: Callable[[], float],
    ) -> None:
        self._config, self._batches, self._open, self._bell, self._now = config, batches, open_episodes, bell, now
        self._waiting: list[_Ticket] = []
        self._looked = (-1, 0.0)  # rings of the bell and loop time at the last look

    async def enter(self, request: EpisodeBegin, *, hold_s: float) -> OpenEpisode:
        """A new open episode, not yet in the journal. Raises NotAdmitted after ``hold_s`` seconds."""
        loop = asyncio.get_running_loop()
        ticket = _Ticket(request, loop.time())
        self._waiting.append(ticket)
        self._looked = (-1, 0.0)
        try:
            while True:
                self._admit_in_order(loop.time())
                if ticket.episode is not None:
                    return ticket.episode
                left_s = ticket.arrived + hold_s - loop.time()
                if left_s <= 0:
                    raise NotAdmitted(ticket.reason)
                await self._bell.wait(min(left_s, SORT_S))
        except asyncio.CancelledError:
            if ticket.episode is not None:  # let in by another's look, and gone before it knew
                self.leave(ticket.episode)
            raise
        finally:
            if ticket in self._waiting:
                self._waiting.remove(ticket)

    def leave(self, episode: OpenEpisode) -> None:
        """An episode that was admitted and never begun."""
        del self._open[episode.id]
        self._bell.ring()

    def _admit_in_order(self, time: float) -> None:
        # Whoever wakes looks for all: the order of waking does not matter. Once per change is enough.
        if self._looked[0] == self._bell.rings and time < self._looked[1] + SORT_S / 10:
            return
        self._looked = (self._bell.rings, time)
        for ticket in list(self._waiting):
            reason = self._reason_to_wait(ticket.request, time - ticket.arrived)
            if reason is None:
                self._waiting.remove(ticket)
                ticket.episode = self._admit(ticket.request)
            else:
                ticket.reason = reason

    def _admit(self, request: EpisodeBegin) -> OpenEpisode:
        now = self._now()
        episode = OpenEpisode(
            id=f"epi_{secrets.token_hex(8)}",
            eval=request.eval,
            group_key=request.task,
            deadline_at=now + (request.timeout_s or self._config.episode_timeout_s),
            last_seen=now,
        )
        self._open[episode.id] = episode
        return episode

    def _reason_to_wait(self, request: EpisodeBegin, waited_s: float) -> str | None:
        batches, config = self._batches, self._config
        if batches.is_over:
            return None
        if batches.pending() > config.max_staleness:
            return "a training step is about to run or running"
        if request.eval or config.max_staleness > 0:
            return None
        # Those that began to sample under older weights will be stale: they fill nothing.
        useful = [e for e in self._open.values() if not e.eval and e.is_live(self._now())]
        useful = [e for e in useful if e.version_first is None or e.version_first >= batches.policy_version]
        completed = Counter(record.group_key or "" for record in batches.waiting.values())
        known = Counter(e.group_key for e in useful if e.group_key is not None)
        unknown = sum(e.group_key is None for e in useful)
        size = {"grpo_n": config.grpo_n, "tasks_per_batch": config.tasks_per_batch}
        if batch_is_covered(completed=completed, open_known=known, open_unknown=unknown, **size):
            return "the open episodes already fill the coming batch"
        if not request.task or not useful or waited_s >= SORT_S:
            return None
        helps = task_helps(request.task, completed=completed, open_known=known, **size)
        return None if helps else "episodes of other tasks go first"
