"""The record: one numbered stream per session, read by the console, the SDK and the CLI alike;
samples of machines.
"""

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
        db_table = "console_eventrecord"
        indexes = [models.Index(fields=["session_id", "id"], name="event_cursor")]
        constraints = [
            models.UniqueConstraint(fields=["session_id", "key"], name="event_reported_once")
        ]


class ResourceChunk(models.Model):
    """Samples of a session's machine as columns: ten minutes of them, or five hours of thinned
    ones.

    A row for each sample would be read one by one. ``columns`` has a list per measure beside ``at``
    (Unix seconds), all of the same length; ``latest`` is the last sample whole. Like the record it
    sits below sessions.
    """

    id = models.BigAutoField(primary_key=True)
    session_id = models.CharField(max_length=40)
    columns = models.JSONField()
    latest = models.JSONField()

    class Meta:
        db_table = "console_resourcechunk"
        indexes = [models.Index(fields=["session_id", "id"], name="resource_chunks")]


class LogChunk(models.Model):
    """The end of what one runtime of a session wrote, from just before it was ended: gzipped lines,
    oldest first.
    """

    id = models.BigAutoField(primary_key=True)
    session_id = models.CharField(max_length=40)
    launch = models.CharField(max_length=150)
    kept_at = models.DateTimeField(auto_now_add=True)
    lines = models.BinaryField()

    class Meta:
        db_table = "console_logchunk"
        constraints = [
            models.UniqueConstraint(fields=["session_id", "launch"], name="log_chunk_once")
        ]
