"""Which of several reconcilers leads: one row, taken for some seconds at a time.

A holder names its process, so that another one beside it sees at once that it was killed and need not wait for the end
of its time. Beside it: under the same kernel, in the same namespace of pids, for the same user. From anywhere else
nothing is seen of it, and its time counts.
"""

import hashlib
import os
import secrets
import socket
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from console.scheduling import processes
from console.scheduling.models import LeaderLease

LEASE_S = 10.0  # longer than the longest tick, shorter than anyone's patience after the leader was lost from sight


@dataclass(frozen=True)
class Pulse:
    """That a reconciler leads: how long its last tick took, and how long ago it last said so, in seconds."""

    tick_s: float
    age_s: float


def holder_new(pid: int | None = None) -> str:
    """A name for a reconciler in this process, or in process ``pid``; no two are alike."""
    stat = processes.stat_read(os.getpid() if pid is None else pid)
    return f"{_place()}:{stat.pid}:{stat.start_time}:{secrets.token_hex(4)}"


def leader_pulse(*, now: datetime | None = None) -> Pulse | None:
    """The leader's pulse; None when nobody leads."""
    now = now or timezone.now()
    lease = LeaderLease.objects.filter(id=1, expires_at__gt=now).first()
    if lease is None:
        return None
    return Pulse(tick_s=lease.tick_s, age_s=LEASE_S - (lease.expires_at - now).total_seconds())


def leader_renew(*, holder: str, now: datetime, tick_s: float = 0.0) -> bool:
    """Lead, or go on leading; False while somebody else does. ``tick_s``: how long the holder's last tick took."""
    mine_or_nobodys = Q(holder=holder) | Q(expires_at__lte=now)
    expires_at = now + timedelta(seconds=LEASE_S)
    says = {"holder": holder, "expires_at": expires_at, "tick_s": tick_s}
    if LeaderLease.objects.filter(mine_or_nobodys, id=1).update(**says):
        return True
    if (killed := _killed()) and LeaderLease.objects.filter(id=1, holder__in=killed).update(**says):
        return True
    try:
        with transaction.atomic():
            LeaderLease.objects.create(id=1, **says)
    except IntegrityError:
        return False
    return True


def leader_release(*, holder: str) -> None:
    """Let the next one lead at once."""
    LeaderLease.objects.filter(id=1, holder=holder).delete()


def _killed() -> list[str]:
    """The holder, if its process is seen to be gone. The row changes only as long as that very holder has it."""
    return [holder for holder in LeaderLease.objects.filter(id=1).values_list("holder", flat=True) if _is_gone(holder)]


def _is_gone(holder: str) -> bool:
    place, *process = holder.split(":")
    if place != _place() or len(process) != 3:
        return False
    return not processes.is_running(int(process[0]), int(process[1]))


def _place() -> str:
    """Where a pid means the same process, and can be looked at: machine, since its boot, namespace of pids, user."""
    try:
        kernel = f"{Path('/proc/sys/kernel/random/boot_id').read_text()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # a sandbox that does not tell: every process is a place of its own
        kernel = secrets.token_hex(16)
    return hashlib.sha256(f"{kernel} {socket.gethostname()} {os.getuid()}".encode()).hexdigest()[:16]
