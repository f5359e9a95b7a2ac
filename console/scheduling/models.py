"""What the scheduler keeps for itself."""

from django.db import models


class LeaderLease(models.Model):
    """One row: which reconciler leads, and until when."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    holder = models.CharField(max_length=80)
    expires_at = models.DateTimeField()
