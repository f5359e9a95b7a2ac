"""Who works on the objects of a session that has ended."""

from django.db import models

from console.sessions.models import Session


class SessionTurn(models.Model):
    """A row while someone does; ``holder`` is a random name of theirs. After ``expires_at`` another
    may take it.
    """

    session = models.OneToOneField(
        Session, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    holder = models.CharField(max_length=32)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "console_sessionturn"
