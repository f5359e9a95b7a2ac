"""The record: one numbered stream per session, read by the console, the SDK and the CLI alike."""

from django.db import models


class EventRecord(models.Model):
    """One entry. The primary key is the cursor: it grows in the order of commit within a session.

    ``session_id`` is no foreign key because the record sits below sessions and outlives them.
    ``key`` is the runtime's own name for an entry, so that a repeated report adds nothing.
    """

    id = models.BigAutoField(primary_key=True)
    session_id = models.CharField(max_length=40)
    key = models.CharField(max_length=120, null=True)
    kind = models.CharField(max_length=10)
    at = models.DateTimeField(auto_now_add=True)
    data = models.JSONField()

    class Meta:
        indexes = [models.Index(fields=["session_id", "id"], name="event_cursor")]
        constraints = [models.UniqueConstraint(fields=["session_id", "key"], name="event_reported_once")]
