"""One open episode in memory: its clocks, the calls in flight, and what later calls can
continue.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from gpu_runtime.journal.records import EpisodeRecord
from gpu_runtime.rendering.conversation import Conversation
from tinkerscript.wire.episodes import MAX_REFUSED_TEXT, MAX_REFUSED_TOLD, RefusedCall, RefusedCalls

# The SDK sends a heartbeat every 10 s or more often: silence for three of them means that the
# client is gone.
LIVE_S = 30.0
STOP_CALLS_S = 30.0


class RefusalTally:
    """What was refused of an episode's calls: a tally, which is forgotten where its runtime is
    killed."""

    def __init__(self) -> None:
        self._count = 0
        self._last: deque[RefusedCall] = deque(maxlen=MAX_REFUSED_TOLD)

    def add(self, *, at: float, status: int, path: str, message: str) -> None:
        """One more. Of equal ones in a row the last alone is kept."""
        self._count += 1
        call = RefusedCall(
            at=at, status=status, path=path[:MAX_REFUSED_TEXT], message=message[:MAX_REFUSED_TEXT]
        )
        last = self._last[-1] if self._last else None
        if last is not None and (last.path, last.message) == (call.path, call.message):
            self._last.pop()
        self._last.append(call)

    def view(self) -> RefusedCalls | None:
        """None where nothing was refused."""
        return RefusedCalls(count=self._count, last=list(self._last)) if self._count else None


@dataclass(eq=False)
class OpenEpisode:
    """Times are Unix seconds. ``conversation`` is loaded by need. ``not_trained`` is the option for
    which an episode that was begun for training is evaluated instead; ``warning`` what looks wrong
    with its calls, in words. ``version_sampling``: the policy version at which the calls in flight
    began to sample; ``refused`` counts what was refused of them."""

    id: str
    eval: bool
    group_key: str | None
    begun_at: float
    deadline_at: float
    last_seen: float
    version_first: int | None = None
    version_sampling: int | None = None
    not_trained: str | None = None
    warning: str | None = None
    closing: bool = False
    conversation: Conversation | None = None
    refused: RefusalTally = field(default_factory=RefusalTally)
    calls: set[asyncio.Task] = field(default_factory=set)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    def of(cls, record: EpisodeRecord, now: float) -> "OpenEpisode":
        """The open episode of a journal row, seen ``now``: a restart of the runtime must not count
        as idleness.
        """
        return cls(
            id=record.id,
            eval=record.eval,
            group_key=record.group_key,
            begun_at=record.begun_at,
            deadline_at=record.deadline_at,
            last_seen=now,
            version_first=record.version_first,
            not_trained=record.reason if record.eval else None,
        )

    def expiry(self, now: float, idle_timeout_s: float) -> str | None:
        """Why the episode is over by its clocks, or None. A call in flight is not idleness."""
        if now >= self.deadline_at:
            return "deadline"
        if (idle_at := self.idle_at(idle_timeout_s)) is not None and now >= idle_at:
            return "idle"
        return None

    def idle_at(self, idle_timeout_s: float) -> float | None:
        """When it will have been silent for too long; None while a call is in flight."""
        return None if self.calls else self.last_seen + idle_timeout_s

    def due_at(self, idle_timeout_s: float) -> float:
        """When a clock of this episode can next run out."""
        return (
            self.deadline_at
            if self.calls
            else min(self.deadline_at, self.last_seen + idle_timeout_s)
        )

    def oldest_version(self, current: int) -> int:
        """The least policy version that its tokens can be of, those of a call in flight
        included."""
        if self.version_first is not None:
            return self.version_first
        return current if self.version_sampling is None else self.version_sampling

    def is_live(self, now: float) -> bool:
        """Whether a client still works on it, as far as can be seen."""
        return bool(self.calls) or now < self.last_seen + LIVE_S

    async def stop_calls(self) -> None:
        """Cancel the calls in flight and wait until each has recorded what became of it."""
        tasks = list(self.calls)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_CALLS_S)
