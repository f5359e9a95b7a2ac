"""The project's audit log."""

from api.presenters import audit_view
from api.rest.requests import ApiRequest
from api.views.queries import AuditQuery
from console.audit.services import audit_list as entries_of
from tinkerscript.wire.projects import AuditPage


def audit_list(request: ApiRequest, query: AuditQuery) -> AuditPage:
    """Who did what in the project, newest first."""
    records = entries_of(project_id=request.auth.project.id, before=query.before, limit=query.limit)
    is_last = not records or records[-1].number == 1
    return AuditPage(
        items=[audit_view(record) for record in records], next_cursor=None if is_last else records[-1].number
    )
