"""The open episodes of a session in memory, which the ledger, the admission queue and the calls
share: of each its clocks, the calls in flight, and what later calls can continue.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from gpu_runtime.episodes.grouping import Begun, Places, step_is_early
from gpu_runtime.journal.records import EpisodeRecord
from gpu_runtime.rendering.history.conversation import Conversation
from tinkerscript.wire.config import SessionConfig
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

    @classmethod
    def endless(cls, name: str) -> "OpenEpisode":
        """One that never ends, of calls that are not kept: their seeds are mixed with its name."""
        return cls(name, True, "", begun_at=time.time(), deadline_at=math.inf, last_seen=0.0)

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


# How long after the end of an episode another attempt at its task counts as on its way: a client
# that tries a failed one again, or whose next attempt has not arrived yet.
ON_THE_WAY_S = 2.0
# After so long without a call, a begin or an end, whoever plays may wait for a begin of its own
QUIET_S = 2.0


class OpenEpisodes:
    """By id. ``now`` is Unix time, and so is ``last_activity_at``: of any episode, the last sign of
    a client.
    """

    def __init__(
        self, records: Iterable[EpisodeRecord], *, idle_timeout_s: float, now: Callable[[], float]
    ) -> None:
        self.now, self.idle_timeout_s = now, idle_timeout_s
        self.last_activity_at = now()
        self._by_id = {record.id: OpenEpisode.of(record, now()) for record in records}
        self._worked_at = now()
        self._left_at: dict[str, float] = {}  # by group key: when the last of its episodes was over

    def __contains__(self, episode_id: str | None) -> bool:
        return episode_id in self._by_id

    def get(self, episode_id: str) -> OpenEpisode | None:
        """The episode, or None once it is over."""
        return self._by_id.get(episode_id)

    def all(self) -> list[OpenEpisode]:
        """A snapshot: it may be iterated over while episodes begin and end."""
        return list(self._by_id.values())

    def add(self, episode: OpenEpisode) -> None:
        """A new one."""
        self._by_id[episode.id] = episode
        self.worked()

    def remove(self, episode_id: str) -> None:
        """It is over, or was never begun."""
        key, now = self._by_id.pop(episode_id).group_key, self.now()
        self._left_at = {name: at for name, at in self._left_at.items() if now < at + ON_THE_WAY_S}
        if key is not None:
            self._left_at[key] = now
        self.worked()

    def worked(self) -> None:
        """An episode began or ended, or a call of one did."""
        self._worked_at = self.now()

    def is_quiet(self) -> bool:
        """Whether no call runs and nothing has been done for QUIET_S."""
        return self.now() >= self._worked_at + QUIET_S and not any(
            each.calls for each in self._by_id.values()
        )

    def trained(self, policy_version: int) -> list[Begun]:
        """Those that may be trained once they end and that a client still works on, as far as can
        be seen."""
        now = self.now()
        return [
            Begun(each.id, each.group_key, each.oldest_version(policy_version), is_open=True)
            for each in self._by_id.values()
            if not each.eval and each.is_live(now)
        ]

    def on_the_way(self) -> set[str]:
        """The group keys of which an attempt has just ended, so that another one may follow."""
        return {key for key, at in self._left_at.items() if self.now() < at + ON_THE_WAY_S}

    def touch(self, episode: OpenEpisode | None = None) -> None:
        """A client was here, for ``episode`` if given: its idle time starts again."""
        self.last_activity_at = self.now()
        if episode is not None:
            episode.last_seen = self.last_activity_at

    def expiry(self, episode: OpenEpisode) -> str | None:
        """Why the episode is over by its deadline or idle time, or None."""
        return episode.expiry(self.now(), self.idle_timeout_s)


class BegunEpisodes:
    """The episodes of a session that are begun and not trained: those that wait, as the journal has
    them, and open ones. Nothing is kept here, so a restart needs no more than the journal.
    """

    def __init__(self, config: SessionConfig, open_episodes: OpenEpisodes) -> None:
        self._config, self._open = config, open_episodes

    def places(
        self, waiting: Iterable[EpisodeRecord], groups_under_way: int, policy_version: int
    ) -> Places:
        """What is left of the groups that may be begun without one of them becoming stale."""
        groups = (1 + self._config.max_staleness) * self._config.tasks_per_batch - groups_under_way
        return Places(
            groups,
            self._config.grpo_n,
            [*map(_begun, waiting), *self._open_trained(policy_version)],
        )

    def _open_trained(self, policy_version: int) -> list[Begun]:
        """The open episodes that can still be trained: tokens of others are too old already."""
        oldest = policy_version - self._config.max_staleness
        return [each for each in self._open.trained(policy_version) if each.version >= oldest]

    def step_is_early(
        self, groups: Sequence[Sequence[EpisodeRecord]], waiting: Iterable[EpisodeRecord], step: int
    ) -> bool:
        """Whether step ``step`` of ``groups`` has to wait for an open episode that it would make
        stale."""
        chosen = {record.id: _begun(record) for group in groups for record in group}
        left = [_begun(record) for record in waiting if record.id not in chosen]
        return step_is_early(
            list(chosen.values()),
            [*left, *self._open_trained(step - 1)],
            step=step,
            grpo_n=self._config.grpo_n,
            batch_groups=self._config.tasks_per_batch,
            max_staleness=self._config.max_staleness,
            on_the_way=self._open.on_the_way(),
        )


def _begun(record: EpisodeRecord) -> Begun:
    return Begun(record.id, record.group_key or "", record.version_first or 0, is_open=False)
