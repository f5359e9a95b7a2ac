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
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.db import IntegrityError, transaction
from django.utils import timezone

from console.scheduling import processes
from console.scheduling.models import LeaderLease

# longer than the longest tick, short enough to wait for when the leader's machine was lost
LEASE_S = 10.0


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


def leader_status(*, now: datetime | None = None) -> LeaderStatus | None:
    """The leader's status, also of one that was at work until some seconds ago; None while there is
    none.
    """
    now = now or timezone.now()
    lease = LeaderLease.objects.filter(expires_at__gt=now).first()
    if lease is None:
        return None
    return LeaderStatus(
        tick_s=lease.tick_s, age_s=LEASE_S - (lease.expires_at - now).total_seconds()
    )


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
