"""How a runtime is, as its heartbeats say it, and whether it still advances."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tinkerscript.wire.reading.resources import ResourceSample
from tinkerscript.wire.runtime import PHASE_PREEMPTED, RuntimeStage, RuntimeState
from tinkerscript.wire.sessions import Accounting

from .deadlines import DEADLINES_S, Phase


@dataclass
class Status:
    """What the next heartbeat sends. Change several fields that belong together with ``update``."""

    state: RuntimeStage = RuntimeStage.LOADING
    phase: str = ""
    progress: int = 0
    address: str = ""
    policy_version: int = 0
    reward_mean: float | None = None
    accounting: Accounting = field(default_factory=Accounting)
    last_activity_at: float | None = None

    def __post_init__(self) -> None:
        self.on_stage: Callable[[], None] = lambda: None  # with each new ``state``
        self._lock = threading.Lock()
        self._doing = Phase.LOADING
        self._is_preempted = False
        self._resources: ResourceSample | None = None
        self._advanced_at = time.monotonic()

    def update(self, **changes: Any) -> None:
        """Set fields as one: no heartbeat sees half of the change. Raises AttributeError for an unknown field."""
        with self._lock:
            before = self.state
            for name, value in changes.items():
                getattr(self, name)
                setattr(self, name, value)
        if self.state is not before:
            self.on_stage()

    def begin(self, doing: Phase, words: str) -> None:
        """A phase begins: what it is in words, and the deadline that it stands under."""
        with self._lock:
            self.phase, self._doing = words, doing
            self._count()

    def sampled(self, resources: ResourceSample) -> None:
        """What the next heartbeat, and no other, says of the machine."""
        with self._lock:
            self._resources = resources

    def preempt(self) -> None:
        """From now on every phase says that this machine is taken away."""
        with self._lock:
            self._is_preempted = True

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
        """The fields as a message. Raises pydantic.ValidationError if one is out of its bounds."""
        with self._lock:
            fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
            fields |= {"deadline_s": DEADLINES_S[self._doing], "resources": self._resources}
            self._resources = None
        if self._is_preempted:
            fields["phase"] = f"{PHASE_PREEMPTED}: {fields['phase']}"[:200]
        return RuntimeState(**fields)
