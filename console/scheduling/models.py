"""What the scheduler keeps for itself."""

from django.db import models


class LeaderLease(models.Model):
    """One row: which reconciler leads, until when, and how long its last tick took."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    holder = models.CharField(max_length=80)
    expires_at = models.DateTimeField()
    tick_s = models.FloatField(default=0.0)


class Drain(models.Model):
    """One row while the server is being drained."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    since = models.DateTimeField(auto_now_add=True)
