"""The audit log: rows that are only ever added, each bound to the one before it by a hash."""

from typing import Any

from django.db import models

from console.errors import Conflict


class AuditQuerySet(models.QuerySet["AuditRecord"]):
    """A queryset that can add and read, and refuses to change or delete."""

    def update(self, **fields: object) -> int:
        raise Conflict("The audit log is only added to.")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise Conflict("The audit log is only added to.")


class AuditRecord(models.Model):
    """One entry of one project's chain. ``content`` is its canonical JSON, which is what the hash
    covers; what entries are looked for by stands in columns too, and chain_verify compares them.

    ``project_id`` is no foreign key: the log outlives what it is about. A trigger refuses every
    UPDATE in the database.
    """

    id = models.BigAutoField(primary_key=True)
    project_id = models.CharField(max_length=40)
    number = models.PositiveBigIntegerField()  # 1, 2, 3... in its project
    content = models.TextField()
    at = models.DateTimeField()
    actor = models.CharField(max_length=400)
    action = models.CharField(max_length=100)
    target = models.TextField()  # canonical JSON
    previous_sha256 = models.CharField(max_length=64, blank=True)
    sha256 = models.CharField(max_length=64)
    # made by console.audit.services: its key is not in the database
    mac = models.CharField(max_length=64, blank=True, default="")

    objects = AuditQuerySet.as_manager()

    class Meta:
        db_table = "console_auditrecord"
        constraints = [models.UniqueConstraint(fields=["project_id", "number"], name="audit_chain")]

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise Conflict("The audit log is only added to.")
        super().save(*args, **kwargs)

    def delete(self, *args: object, **kwargs: object) -> tuple[int, dict[str, int]]:
        raise Conflict("The audit log is only added to.")


class AuditHead(models.Model):
    """Where a project's chain ends: a log that was cut short does not end here. Writers take turns
    on this row.
    """

    project_id = models.CharField(primary_key=True, max_length=40)
    number = models.PositiveBigIntegerField(default=0)
    sha256 = models.CharField(max_length=64, blank=True)
    mac = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        db_table = "console_audithead"
