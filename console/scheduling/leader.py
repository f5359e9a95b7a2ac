"""Which of several reconcilers leads: one row, taken for some seconds at a time.

The leader alone starts, watches and ends the sessions of all places; the others stand by, and one
of them follows it.

A holder names its process, so that another one beside it sees at once that it was killed and need
not wait for the end of its time. Beside it: under the same kernel, in the same namespace of pids,
for the same user. From anywhere else nothing is seen of it, and its time counts.
"""

import hashlib
import os
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from django.db import IntegrityError, transaction
from django.utils import timezone

from console.scheduling import processes
from console.scheduling.models import LeaderLease

# longer than the longest tick, short enough to wait for when the leader's machine was lost
LEASE_S = 10.0
# after a gap this long between ticks the reconciler was stopped, not the runtimes
PAUSE = timedelta(seconds=10)


@dataclass(frozen=True)
class LeaderStatus:
    """That a reconciler leads: how long its last tick took, and how long ago that began, in
    seconds."""

    tick_s: float
    age_s: float


def holder_new(pid: int | None = None) -> str:
    """A name for a reconciler in this process, or in process ``pid``; no two are alike."""
    stat = processes.stat_get(os.getpid() if pid is None else pid)
    return f"{machine_id()}:{stat.pid}:{stat.start_time}:{secrets.token_hex(4)}"


@dataclass
class Leadership:
    """One reconciler's lead: taken where no other has it, and renewed in every tick.

    ``take_over`` is called before it leads, ``forget`` where what it remembers may be untrue by
    now, ``stand_by`` while another leads.
    """

    take_over: Callable[[], None]
    forget: Callable[[], None]
    stand_by: Callable[[], None]
    holder: str = field(default_factory=holder_new)
    # None: another leads. Silence before it was ours, and no runtime is blamed for it.
    judging_since: datetime | None = None
    tick_s: float = 0.0  # how long its last tick took
    # By a clock that goes on while the machine sleeps, and by one that nobody sets.
    _renewed_at: datetime = field(default_factory=timezone.now)
    _renewed_s: float = field(default_factory=time.monotonic)

    def renew(self, now: datetime) -> datetime | None:
        """Lead until the next tick, unless another does; returns ``judging_since``. Raises
        DatabaseError where nothing can be written.
        """
        if not leader_renew(holder=self.holder, now=now, tick_s=self.tick_s):
            self.judging_since = None
            self.stand_by()
        elif self.judging_since is None or now - self._renewed_at > PAUSE:
            if self.judging_since is None:
                self.take_over()
            self.forget()  # another has led meanwhile
            self.judging_since = now
        self._renewed_at, self._renewed_s = now, time.monotonic()
        return self.judging_since

    def keep(self) -> datetime | None:
        """The same in a long tick: who is late is followed by another."""
        return self.renew(timezone.now()) if self.age_s > LEASE_S / 3 else self.judging_since

    @property
    def age_s(self) -> float:
        """How long ago it was renewed."""
        return time.monotonic() - self._renewed_s


def leader_status() -> LeaderStatus | None:
    """That of the leader, or of one that led until some seconds ago; None while there is none."""
    now = timezone.now()
    lease = LeaderLease.objects.filter(expires_at__gt=now).first()
    if lease is None:
        return None
    left_s = (lease.expires_at - now).total_seconds()
    return LeaderStatus(tick_s=lease.tick_s, age_s=LEASE_S - left_s)


def leader_renew(*, holder: str, now: datetime, tick_s: float = 0.0) -> bool:
    """Go on leading, or lead where nobody does; whether ``holder`` leads now.

    ``tick_s``: how long the holder's last tick took.
    """
    values = {"holder": holder, "expires_at": now + timedelta(seconds=LEASE_S), "tick_s": tick_s}
    if LeaderLease.objects.filter(holder=holder).update(**values):
        return True
    before = LeaderLease.objects.first()
    if before is not None and before.expires_at > now and not _is_gone(before.holder):
        return False
    return _take(before, **values)


def leader_release(*, holder: str) -> None:
    """Let others lead at once."""
    LeaderLease.objects.filter(holder=holder).delete()


def _take(before: LeaderLease | None, **values: object) -> bool:
    """Lead, where nobody did when ``before`` was read; False where another was faster."""
    if before is not None:
        unchanged = LeaderLease.objects.filter(holder=before.holder, expires_at=before.expires_at)
        return unchanged.update(**values) == 1
    try:
        with transaction.atomic():
            LeaderLease.objects.create(**values)
    except IntegrityError:
        return False
    return True


def _is_gone(holder: str) -> bool:
    machine, *process = holder.split(":")
    if machine != machine_id() or len(process) != 3:
        return False
    return not processes.is_running(int(process[0]), int(process[1]))


def machine_id() -> str:
    """Identifies where a pid means the same process and can be inspected: host, boot, pid
    namespace, user.
    """
    try:
        kernel = (
            f"{Path('/proc/sys/kernel/random/boot_id').read_text()} "
            f"{os.readlink('/proc/self/ns/pid')}"
        )
    except OSError:  # a sandbox that hides it: every process counts as a machine of its own
        kernel = secrets.token_hex(16)
    return hashlib.sha256(f"{kernel} {socket.gethostname()} {os.getuid()}".encode()).hexdigest()[
        :16
    ]
