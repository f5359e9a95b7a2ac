"""What the scheduler keeps for itself."""

from django.db import models


class LeaderLease(models.Model):
    """One row: which reconciler leads, until when, how long its last tick took."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    holder = models.CharField(max_length=80)
    expires_at = models.DateTimeField()
    tick_s = models.FloatField(default=0.0)

    class Meta:
        db_table = "console_leaderlease"


class ServerInstance(models.Model):
    """One row: what distinguishes this server from every copy of it."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    secret = models.CharField(max_length=32)

    class Meta:
        db_table = "console_serverinstance"


class Drain(models.Model):
    """One row while the server is being drained."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    since = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "console_drain"


class WarmRuntime(models.Model):
    """A runtime that has no session yet. Its reconciler holds it."""

    id = models.CharField(primary_key=True, max_length=40)
    is_ready = models.BooleanField(default=False)
    started_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "console_warmruntime"


class RestartCount(models.Model):
    """How many runtimes were started again, by cause: the reconciler counts, every web process
    shows it.
    """

    cause = models.CharField(primary_key=True, max_length=20)
    total = models.PositiveBigIntegerField(default=0)

    class Meta:
        db_table = "console_restartcount"
