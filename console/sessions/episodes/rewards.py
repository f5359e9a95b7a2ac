"""Rewards that were replaced before they were trained, in their session's record and in the audit
log.
"""

from django.db import transaction

from console.audit.services import audit_record
from console.live.models import EventRecord
from console.live.services import events_record
from console.sessions.selectors import session_get
from console.users.models import Membership, Project, User
from tinkerscript.wire.episodes import EpisodesRescored
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.runtime import ReportEntry


def rewards_changed(
    *,
    project: Project,
    session_id: str,
    person: User,
    key_id: str | None,
    request_id: str,
    done: EpisodesRescored,
) -> None:
    """Record each change once, by the request that came first. The record names ``person`` by the
    id of a member, the audit log by the address.
    """
    session = session_get(project=project, session_id=session_id)
    # Of each by itself: a request that is sent again may have it beside others.
    changes = {f"rescored {change.seq}": change for change in done.changes}
    of_session = EventRecord.objects.filter(session_id=session.id, key__in=changes)
    known = set(of_session.values_list("key", flat=True))
    changes = {key: change for key, change in changes.items() if key not in known}
    if not changes:
        return
    members = Membership.objects.filter(project=project, user=person)
    by = {"member_id": members.values_list("member_id", flat=True).first(), "key_id": key_id}
    with transaction.atomic():
        events_record(
            session_id=session.id,
            entries=[
                ReportEntry(
                    key=key,
                    kind=EventKind.EVENT,
                    data={
                        "name": "episodes_rescored",
                        **by,
                        "rewards": {
                            change.episode_id: {"was": change.was, "reward": change.reward}
                        },
                    },
                )
                for key, change in changes.items()
            ],
        )
        audit_record(
            project_id=project.id,
            actor=person.email,
            key_id=key_id,
            action="episodes_rescore",
            target={"session_id": session.id},
            details={"episodes": len(changes)},
            request_id=request_id,
        )
