"""What people changed in a run between two steps, rewards and options: in the session's record and
in the audit log.
"""

from collections.abc import Callable
from typing import Any, TypedDict, Unpack

from django.db import transaction

from console.audit.services import audit_record
from console.live.models import EventRecord
from console.live.services import events_record
from console.sessions.selectors import session_get
from console.users.models import Membership, Project, User
from tinkerscript.wire.episodes import EpisodesRescored
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.runtime import ReportEntry
from tinkerscript.wire.training.changes import ConfigChange


class ChangedBy(TypedDict):
    """Who changed what of which session."""

    project: Project
    session_id: str
    person: User
    key_id: str | None
    request_id: str


Entries = dict[str, dict[str, Any]]  # of the record, by their keys


def rewards_changed(*, done: EpisodesRescored, **by: Unpack[ChangedBy]) -> None:
    """Record each reward that was replaced before it was trained. Raises NotFound."""
    # Of each by itself: a request that is sent again may have it beside others.
    entries: Entries = {
        f"rescored {change.seq}": {
            "name": "episodes_rescored",
            "rewards": {change.episode_id: {"was": change.was, "reward": change.reward}},
        }
        for change in done.changes
    }
    _changes_record(
        entries, action="episodes_rescore", details=lambda new: {"episodes": len(new)}, **by
    )


def config_changed(*, change: ConfigChange, **by: Unpack[ChangedBy]) -> None:
    """Record the options that were changed. Raises NotFound."""
    if not change.options:
        return
    changed = {"options": change.options, "was": change.was}
    entry = {"name": "config_changed", "step": change.first_step, **changed}
    _changes_record(
        {f"config changed {change.seq}": entry},
        action="session_config_update",
        details=lambda _: {"first_step": change.first_step, **changed},
        **by,
    )


def _changes_record(
    entries: Entries,
    *,
    action: str,
    details: Callable[[Entries], dict[str, Any]],
    **by: Unpack[ChangedBy],
) -> None:
    """Record each entry once, by the request that came first. The record names the person by the
    id of a member, the audit log by the address; ``details`` are those of the entries that are new.
    """
    project, person = by["project"], by["person"]
    session = session_get(project=project, session_id=by["session_id"])
    of_session = EventRecord.objects.filter(session_id=session.id, key__in=entries)
    known = set(of_session.values_list("key", flat=True))
    new = {key: data for key, data in entries.items() if key not in known}
    if not new:
        return
    members = Membership.objects.filter(project=project, user=person)
    member_id = members.values_list("member_id", flat=True).first()
    said_by = {"member_id": member_id, "key_id": by["key_id"]}
    with transaction.atomic():
        events_record(
            session_id=session.id,
            entries=[
                ReportEntry(key=key, kind=EventKind.EVENT, data=data | said_by)
                for key, data in new.items()
            ],
        )
        audit_record(
            project_id=project.id,
            actor=person.email,
            key_id=by["key_id"],
            action=action,
            target={"session_id": session.id},
            details=details(new),
            request_id=by["request_id"],
        )
