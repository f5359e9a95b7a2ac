"""Which of several reconcilers leads a place: a row for each place, taken for some seconds at a time.

One that is alone leads all places. Several share them: who leads none, or two fewer than another, asks for one of its
places, and gets it between two ticks. A place has one leader at any time, which alone starts, watches and ends its
sessions. Who comes first leads this server's own place for as long as it runs: runtimes that wait there are its own.

A holder names its process, so that another one beside it sees at once that it was killed and need not wait for the end
of its time. Beside it: under the same kernel, in the same namespace of pids, for the same user. From anywhere else
nothing is seen of it, and its time counts.
"""

import hashlib
import os
import secrets
import socket
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from console.scheduling import processes
from console.scheduling.models import LeaderLease
from tinkerscript.wire.config import HERE

LEASE_S = 10.0  # longer than the longest tick, short enough to wait for when the leader's machine was lost


@dataclass(frozen=True)
class LeaderStatus:
    """That a reconciler leads: how long its last tick took, and how long ago it last said so, in seconds."""

    tick_s: float
    age_s: float


def holder_new(pid: int | None = None) -> str:
    """A name for a reconciler in this process, or in process ``pid``; no two are alike."""
    stat = processes.stat_get(os.getpid() if pid is None else pid)
    return f"{machine_id()}:{stat.pid}:{stat.start_time}:{secrets.token_hex(4)}"


def leader_status(*, now: datetime | None = None) -> LeaderStatus | None:
    """The slowest leader's status; None while a place has no leader."""
    now = now or timezone.now()
    places = [HERE, *settings.PLACES]
    leases = list(LeaderLease.objects.filter(place__in=places, expires_at__gt=now))
    if len(leases) < len(places):
        return None
    oldest = min(lease.expires_at for lease in leases)
    return LeaderStatus(tick_s=max(lease.tick_s for lease in leases), age_s=LEASE_S - (oldest - now).total_seconds())


def anyone_leads() -> bool:
    """Whether a reconciler is at work, or was until some seconds ago."""
    return LeaderLease.objects.filter(expires_at__gt=timezone.now()).exists()


def leader_renew(*, holder: str, now: datetime, tick_s: float = 0.0, places: Iterable[str] = (HERE,)) -> set[str]:
    """Go on leading, and lead what nobody does; those of ``places`` that ``holder`` leads now.

    ``tick_s``: how long the holder's last tick took.
    """
    places = set(places)
    values = {"expires_at": now + timedelta(seconds=LEASE_S), "tick_s": tick_s}
    if LeaderLease.objects.filter(holder=holder, place__in=places).update(**values) == len(places):
        return places
    led = set(LeaderLease.objects.filter(holder=holder, place__in=places).values_list("place", flat=True))
    for place, before in free_find(places - led, now).items():
        if _take(place, before, holder=holder, wanted_by="", **values):
            led.add(place)
    return led


def leader_release(*, holder: str) -> None:
    """Let others lead at once."""
    LeaderLease.objects.filter(holder=holder).delete()


def places_share(*, holder: str, places: Iterable[str], now: datetime) -> None:
    """Hand over places that others ask for, and ask for one where another leads more: towards equal numbers.

    Call it between ticks: nothing of the place that is handed over is under way then.
    """
    rows = list(LeaderLease.objects.filter(place__in=places, expires_at__gt=now).order_by("place"))
    led = Counter(row.holder for row in rows)
    for row in rows:
        asked = LeaderLease.objects.filter(place=row.place, holder=row.holder, wanted_by=row.wanted_by)
        if row.wanted_by and row.holder == holder:
            given: dict[str, object] = {}
            if led[holder] - led[row.wanted_by] >= 2 and not _is_gone(row.wanted_by):
                given = {"holder": row.wanted_by, "expires_at": now + timedelta(seconds=LEASE_S)}
                led.subtract({holder: 1, row.wanted_by: -1})
            asked.update(wanted_by="", **given)
    if not led or holder in {row.wanted_by for row in rows}:
        return
    ((most, count),) = led.most_common(1)
    others = [row for row in rows if row.holder == most and row.place != HERE and not row.wanted_by]
    if count - led[holder] >= 2 and others:
        LeaderLease.objects.filter(place=others[0].place, holder=most, wanted_by="").update(wanted_by=holder)


def free_find(places: Iterable[str], now: datetime) -> dict[str, LeaderLease | None]:
    """Those of ``places`` that nobody leads, with their rows: the time is over, or the process is seen to be gone."""
    places = set(places)
    found = {row.place: row for row in LeaderLease.objects.filter(place__in=places)}
    gone = {holder for holder in {row.holder for row in found.values()} if _is_gone(holder)}
    free: dict[str, LeaderLease | None] = dict.fromkeys(places - found.keys())
    return free | {place: row for place, row in found.items() if row.expires_at <= now or row.holder in gone}


def _take(place: str, before: LeaderLease | None, **values: object) -> bool:
    """Lead a place that was free when ``before`` was read; False where another was faster."""
    if before is not None:
        unchanged = LeaderLease.objects.filter(place=place, holder=before.holder, expires_at=before.expires_at)
        return unchanged.update(**values) == 1
    try:
        with transaction.atomic():
            LeaderLease.objects.create(place=place, **values)
    except IntegrityError:
        return False
    return True


def _is_gone(holder: str) -> bool:
    machine, *process = holder.split(":")
    if machine != machine_id() or len(process) != 3:
        return False
    return not processes.is_running(int(process[0]), int(process[1]))


def machine_id() -> str:
    """Identifies where a pid means the same process and can be inspected: host, boot, pid namespace, user."""
    try:
        kernel = f"{Path('/proc/sys/kernel/random/boot_id').read_text()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # a sandbox that hides it: every process counts as a machine of its own
        kernel = secrets.token_hex(16)
    return hashlib.sha256(f"{kernel} {socket.gethostname()} {os.getuid()}".encode()).hexdigest()[:16]
