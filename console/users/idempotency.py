"""Responses kept under the Idempotency-Key of their request, so that a repeated request does
nothing twice.
"""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from console.errors import Conflict
from console.users.models import IdempotencyRecord, Project
from tinkerscript.wire.errors import ErrorCode

KEPT_FOR = timedelta(hours=24)


class IdempotencyMismatch(Conflict):
    code = ErrorCode.IDEMPOTENCY_MISMATCH


def record_claim(
    *, project: Project, key: str, request: str, body_sha256: str
) -> tuple[IdempotencyRecord, bool]:
    """The row of this key and whether it is new. Call it in the transaction that does the work and
    keeps the response.

    A second request with the same key waits here until that transaction ends, so it either finds
    the response or, after a crash, nothing. ``request`` is the method and path. Raises
    IdempotencyMismatch when the key was used for another.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("record_claim needs a transaction around it")
    asked = {"request": request, "body_sha256": body_sha256}
    row, is_new = IdempotencyRecord.objects.get_or_create(project=project, key=key, defaults=asked)
    # the minute's round has not come by yet
    if not is_new and row.created_at < timezone.now() - KEPT_FOR:
        row.delete()
        row, is_new = IdempotencyRecord.objects.get_or_create(
            project=project, key=key, defaults=asked
        )
    if (row.request, row.body_sha256) != (request, body_sha256):
        raise IdempotencyMismatch(
            "This Idempotency-Key was used for another request.",
            hint="Use a fresh key for each new request.",
        )
    return row, is_new


def record_complete(*, row: IdempotencyRecord, status: int, body: str) -> None:
    """Keep the response to the request that claimed the row."""
    row.status, row.body = status, body
    row.save(update_fields=["status", "body"])
