"""How a runtime is, as its heartbeats say it, and whether it still advances: how long each phase
may go without progress before it counts as stuck.

Progress is work that was seen to advance: a packed row was computed, a token sampled, a file grew.
Every deadline is below the control plane's own (``PROGRESS_DEADLINES_S``), which knows no stack: a
stuck runtime sends its stacks.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field, fields
from enum import StrEnum
from typing import Any

from tinkerscript.wire.reading.resources import ResourceSample
from tinkerscript.wire.runtime import (
    MAX_PHASE,
    PHASE_PREEMPTED,
    PHASE_WAITING,
    RuntimeStage,
    RuntimeState,
)
from tinkerscript.wire.sessions import Accounting


class Phase(StrEnum):
    """What a runtime is doing, as far as its deadline depends on it."""

    LOADING = "loading"  # the base model, by engine and trainer
    RESTORING = "restoring"  # a state fetched, journaled batches trained again
    TRAINING = "training"
    # weights from trainer to engine; calls in flight end first, unless they are kept
    HANDOVER = "hand-over"
    SAVING = "saving"  # a checkpoint is written or uploaded
    GENERATION = "generation"  # calls are in the engine, whatever else goes on
    WAITING = "waiting"  # for episodes: the main loop reports progress every second


# Seconds without progress. The longest one bounds how long a session can be silent.
DEADLINES_S: dict[Phase, float] = {
    Phase.LOADING: 840.0,
    Phase.RESTORING: 840.0,
    Phase.TRAINING: 600.0,
    Phase.HANDOVER: 540.0,
    Phase.SAVING: 840.0,
    Phase.GENERATION: 300.0,
    Phase.WAITING: 120.0,
}

# After so long without a call its session may soon count as idle (``idle_suspend_s`` is 10 s at
# least): one is news.
QUIET_S = 5.0


@dataclass
class Status:
    """What the next heartbeat sends. Change several fields that belong together with ``update``.

    ``on_news`` is called with what is to be told before the next heartbeat is due: at once (True),
    or within the second.
    """

    on_news: InitVar[Callable[[bool], None]] = lambda at_once: None
    state: RuntimeStage = RuntimeStage.LOADING
    phase: str = ""
    progress: int = 0
    address: str = ""
    policy_version: int = 0
    reward_mean: float | None = None
    accounting: Accounting = field(default_factory=Accounting)
    last_activity_at: float | None = None

    def __post_init__(self, on_news: Callable[[bool], None]) -> None:
        self._on_news = on_news
        self._lock = threading.Lock()
        self._doing = Phase.LOADING
        self._is_preempted = False
        self._resources: ResourceSample | None = None
        self._advanced_at = time.monotonic()
        self._told_active_at: float | None = None

    def update(self, **changes: Any) -> None:
        """Set fields as one: no heartbeat sees half of the change. Raises AttributeError for an
        unknown field.
        """
        with self._lock:
            stage, version = self.state, self.policy_version
            for name, value in changes.items():
                getattr(self, name)
                setattr(self, name, value)
            told_at = self._told_active_at
            is_active = told_at is not None and (self.last_activity_at or 0.0) - told_at > QUIET_S
        if self.state is not stage:  # calls and people wait for it
            self._on_news(True)
        elif self.policy_version != version or is_active:
            self._on_news(False)

    def begin(self, doing: Phase, words: str) -> None:
        """A phase begins: what it is in words, and the deadline that it stands under."""
        with self._lock:
            # Of what is waited for only the count changes each second, which is no entry of the
            # record.
            is_news = words != self.phase and not (_is_waiting(words) and _is_waiting(self.phase))
            self.phase, self._doing = words, doing
            self._count()
        if is_news:
            self._on_news(False)

    def sampled(self, resources: ResourceSample) -> None:
        """What the next heartbeat, and no other, says of the machine."""
        with self._lock:
            self._resources = resources

    def preempt(self) -> None:
        """From now on every phase says that this machine is taken away."""
        with self._lock:
            self._is_preempted = True
        self._on_news(True)  # its end counts as a failure where nobody has heard why

    def advance(self) -> None:
        """Real work advanced: every progress clock starts anew, here and in the control plane."""
        with self._lock:
            self._count()

    def stuck(self) -> str | None:
        """Why the phase counts as stuck, or None."""
        with self._lock:
            still_s = time.monotonic() - self._advanced_at
            if still_s <= DEADLINES_S[self._doing]:
                return None
            if self._doing == Phase.WAITING:
                return f"the runtime's main loop did not turn for {still_s:.0f} s"
            return f"{self.phase or self._doing}: no progress for {still_s:.0f} s"

    def _count(self) -> None:
        self.progress += 1
        self._advanced_at = time.monotonic()

    def snapshot(self) -> RuntimeState:
        """The fields as a message, a long phase cut. Raises pydantic.ValidationError if another one
        is out of its bounds.
        """
        with self._lock:
            sent = {name: getattr(self, name) for name in FIELDS}
            sent |= {"deadline_s": DEADLINES_S[self._doing], "resources": self._resources}
            self._resources = None
            self._told_active_at = self.last_activity_at
        if self._is_preempted:
            sent["phase"] = f"{PHASE_PREEMPTED}: {sent['phase']}"
        # it may name a task and count groups: no reason to end a runtime
        sent["phase"] = sent["phase"][:MAX_PHASE]
        return RuntimeState(**sent)


FIELDS = tuple(each.name for each in fields(Status))


def _is_waiting(phase: str) -> bool:
    return phase.startswith(PHASE_WAITING)
