"""Options that were changed between two steps, in their session's record and in the audit log."""

from django.db import transaction

from console.audit.services import audit_record
from console.live.models import EventRecord
from console.live.services import events_record
from console.sessions.selectors import session_get
from console.users.models import Membership, Project, User
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.runtime import ReportEntry
from tinkerscript.wire.training.changes import ConfigChange


def config_changed(
    *,
    project: Project,
    session_id: str,
    person: User,
    key_id: str | None,
    request_id: str,
    change: ConfigChange,
) -> None:
    """Record a change once, by the request that came first. The record names ``person`` by the id
    of a member, the audit log by the address.
    """
    if not change.options:
        return
    session = session_get(project=project, session_id=session_id)
    key = f"config changed {change.seq}"
    if EventRecord.objects.filter(session_id=session.id, key=key).exists():
        return
    members = Membership.objects.filter(project=project, user=person)
    data = {
        "name": "config_changed",
        "step": change.first_step,
        "options": change.options,
        "was": change.was,
        "member_id": members.values_list("member_id", flat=True).first(),
        "key_id": key_id,
    }
    with transaction.atomic():
        entry = ReportEntry(key=key, kind=EventKind.EVENT, data=data)
        events_record(session_id=session.id, entries=[entry])
        audit_record(
            project_id=project.id,
            actor=person.email,
            key_id=key_id,
            action="session_config_update",
            target={"session_id": session.id},
            details={"first_step": change.first_step, "options": change.options, "was": change.was},
            request_id=request_id,
        )
