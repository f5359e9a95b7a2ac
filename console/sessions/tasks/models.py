"""The queue of tasks that workers pull from."""

from django.db import models

from console.sessions.models import Session, new_task_id

WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"


class QueuedTask(models.Model):
    """One attempt at a task that workers pull. ``lease`` is of the worker that has it, or had it
    last.

    Of a judged task it is all ``attempts``, which one worker plays: ``episode_ids`` are those of
    the last that did, and ``outputs`` what its judge made of them, until they are ended.
    """

    id = models.BigAutoField(primary_key=True)
    task_id = models.CharField(max_length=40, unique=True, default=new_task_id, editable=False)
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, related_name="queued_tasks", db_index=False
    )
    name = models.CharField(max_length=512)
    row = models.JSONField(null=True)  # None once it is over
    size_bytes = models.PositiveIntegerField(default=0)  # of row and outputs
    eval = models.BooleanField(default=False)
    state = models.CharField(max_length=8, default=WAITING)
    try_number = models.PositiveSmallIntegerField(default=0)
    tries = models.PositiveSmallIntegerField()
    lease = models.CharField(max_length=64, blank=True)
    lease_expires_at = models.DateTimeField(null=True)
    worker = models.CharField(max_length=120, blank=True)
    episode_id = models.CharField(max_length=64, null=True)
    error = models.CharField(max_length=500, blank=True)
    ended_at = models.DateTimeField(null=True)
    judged = models.BooleanField(default=False)
    attempts = models.PositiveSmallIntegerField(default=1)
    episode_ids = models.JSONField(default=list)
    outputs = models.JSONField(null=True)

    class Meta:
        db_table = "console_queuedtask"
        indexes = [
            models.Index(fields=["session", "judged", "state", "id"], name="task_next_of_kind"),
            models.Index(fields=["session", "name", "state"], name="task_name"),
        ]
