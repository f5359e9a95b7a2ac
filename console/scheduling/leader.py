"""Which of several reconcilers leads: one row, taken for some seconds at a time."""

from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q

from console.scheduling.models import LeaderLease

LEASE_S = 10.0  # longer than the longest tick, shorter than anyone's patience after the leader was killed


def leader_renew(*, holder: str, now: datetime) -> bool:
    """Lead, or go on leading; False while somebody else does."""
    mine_or_nobodys = Q(holder=holder) | Q(expires_at__lte=now)
    expires_at = now + timedelta(seconds=LEASE_S)
    if LeaderLease.objects.filter(mine_or_nobodys, id=1).update(holder=holder, expires_at=expires_at):
        return True
    try:
        with transaction.atomic():
            LeaderLease.objects.create(id=1, holder=holder, expires_at=expires_at)
    except IntegrityError:
        return False
    return True


def leader_release(*, holder: str) -> None:
    """Let the next one lead at once."""
    LeaderLease.objects.filter(id=1, holder=holder).delete()
