"""The project's audit log."""

from api.presenters import audit_view
from api.rest.requests import ApiRequest
from api.views.queries import AuditQuery
from console.audit.services import audit_list as entries_of
from tinkerscript.wire.projects import AuditPage


def audit_list(request: ApiRequest, query: AuditQuery) -> AuditPage:
    """Who did what in the project, newest first."""
    records, next_cursor = entries_of(project_id=request.auth.project.id, **query.model_dump())
    return AuditPage(items=[audit_view(record) for record in records], next_cursor=next_cursor)
