"""The project's audit log."""

from django.http import HttpRequest
from ninja import Query

from api.presenters import audit_view
from console.audit.services import audit_list as entries_of
from tinkerscript.wire.audit import AuditPage


def audit_list(
    request: HttpRequest, before: int | None = Query(None, ge=1, le=2**53 - 1), limit: int = Query(50, ge=1, le=200)
) -> AuditPage:
    """Who did what in the project, newest first."""
    records = entries_of(project_id=request.auth.project.id, before=before, limit=limit)
    is_last = not records or records[-1].number == 1
    return AuditPage(
        items=[audit_view(record) for record in records], next_cursor=None if is_last else records[-1].number
    )
