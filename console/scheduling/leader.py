"""Which of several reconcilers leads: one row, taken for some seconds at a time."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from console.scheduling.models import LeaderLease

LEASE_S = 10.0  # longer than the longest tick, shorter than anyone's patience after the leader was killed


@dataclass(frozen=True)
class Pulse:
    """That a reconciler leads: how long its last tick took, and how long ago it last said so, in seconds."""

    tick_s: float
    age_s: float


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
    try:
        with transaction.atomic():
            LeaderLease.objects.create(id=1, **says)
    except IntegrityError:
        return False
    return True


def leader_release(*, holder: str) -> None:
    """Let the next one lead at once."""
    LeaderLease.objects.filter(id=1, holder=holder).delete()
