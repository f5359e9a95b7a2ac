"""What a project may have at once, as set by who runs the server (manage.py set_quota); queue.py
keeps the devices.
"""

from datetime import timedelta

from django.conf import settings
from django.db.models import Q, Sum
from django.utils import timezone

from console.errors import Conflict, QuotaExceeded
from console.sessions.limits.queue import devices_in_use
from console.sessions.models import ArchivePart, Checkpoint, EpisodePack, Session, Upload
from console.sessions.states import ENDED, WITH_RUNTIME
from console.users.models import Project, User
from tinkerscript.wire.checkpoints import CheckpointState
from tinkerscript.wire.projects import Held, Quotas
from tinkerscript.wire.sessions import SessionState

GIB = 1 << 30


def quotas_get(*, project: Project) -> Quotas:
    """What the project has now of what can be limited, and its limits."""
    return Quotas(
        devices=Held(used=devices_in_use()[project.id], limit=project.device_quota),
        sessions=Held(used=_sessions_used(project), limit=project.session_quota),
        storage_bytes=Held(used=_storage_used(project), limit=project.storage_quota_bytes),
    )


def device_quota_check(*, project: Project, devices: int) -> None:
    """Raises QuotaExceeded when the project may never have so many devices."""
    if project.device_quota is not None and max(1, devices) > project.device_quota:
        raise QuotaExceeded(
            f"This project may use {project.device_quota} devices at once, and the session asks "
            f"for {max(1, devices)}.",
            hint="Ask for fewer devices, or ask who runs this server for more.",
            details={"limit": project.device_quota, "used": 0},
        )


def device_quota_recheck(*, session: Session) -> None:
    """Raises Conflict where what has been started since its turn was found leaves its project too
    few devices.

    Call it in the transaction that starts it: the lead may have passed to another reconciler
    meanwhile.
    """
    held = Project.objects.select_for_update(no_key=True).filter(
        id=session.project_id, device_quota__isnull=False
    )
    row = held.first()
    if row is not None and devices_in_use()[row.id] + max(1, session.devices) > (
        row.device_quota or 0
    ):
        raise Conflict(
            "Its project has all the devices that it may have.",
            hint="It starts when one of them ends.",
        )


def session_quota_check(*, project: Project, devices: int) -> None:
    """Raises QuotaExceeded when the project has all the sessions it may have, or may never have so
    many devices.

    Call it in the creating transaction.
    """
    # Two at once must not both take the last slot. Where there is no quota none waits for another.
    limited = Q(session_quota__isnull=False) | Q(device_quota__isnull=False)
    row = Project.objects.select_for_update(no_key=True).filter(limited, id=project.id).first()
    if row is None:
        return
    device_quota_check(project=row, devices=devices)
    if row.session_quota is None:
        return
    used = _sessions_used(row)
    if used >= row.session_quota:
        raise QuotaExceeded(
            f"This project may have {row.session_quota} sessions that have not ended, and has "
            f"{used}.",
            hint="Stop one of them, or ask who runs this server for more.",
            details={"limit": row.session_quota, "used": used},
        )


def person_queue_check(*, person: User | None) -> None:
    """Raises QuotaExceeded when the person has as many queued sessions as one may, in all projects
    together.

    Call it in the creating transaction.
    """
    limit = settings.LIMITS.queued
    if limit is None or person is None:
        return
    # two at once must not both take the last one
    User.objects.select_for_update(no_key=True).get(id=person.pk)
    used = Session.objects.filter(person=person, state=SessionState.QUEUED).count()
    if used >= limit:
        raise QuotaExceeded(
            f"One person may have {limit} queued sessions, and you have {used}.",
            hint="Wait for some to start, or stop those that you no longer need.",
            details={"limit": limit, "used": used},
        )


def storage_quota_check(*, project: Project, more_bytes: int = 0) -> None:
    """Raises QuotaExceeded when the project's checkpoints, archived episodes and copies of journals
    fill what it may store, or would with ``more_bytes`` beside them.

    Automatic ones are written all the same: without them a session could lose what it learned.
    """
    if project.storage_quota_bytes is None:
        return
    used = _storage_used(project) + more_bytes
    if used >= project.storage_quota_bytes:
        raise QuotaExceeded(
            f"This project stores {used / GIB:.2f} GiB of checkpoints, episodes and journals and "
            "may store "
            f"{project.storage_quota_bytes / GIB:.2f} GiB.",
            hint="Delete checkpoints, or sessions that have ended, that you no longer need.",
            details={"limit": project.storage_quota_bytes, "used": used},
        )


def _sessions_used(project: Project) -> int:
    return Session.objects.filter(project=project).exclude(state__in=ENDED).count()


def _storage_used(project: Project) -> int:
    journals = (
        Session.objects.filter(project=project).aggregate(total=Sum("journal_bytes"))["total"] or 0
    )
    return journals + _stored_bytes(session__project=project)


def session_stored_bytes(*, session: Session) -> int:
    """What one session takes in the object store; of ``session`` its id and ``journal_bytes`` are
    read.
    """
    return session.journal_bytes + _stored_bytes(session_id=session.id)


def _stored_bytes(**which: object) -> int:
    """What checkpoints, archives and episodes of the sessions that ``which`` selects take in the
    object store, and what is being uploaded, the next copy of a journal too.
    """
    # What is being uploaded is in the store already.
    stored = [CheckpointState.UPLOADING, CheckpointState.COMMITTED]
    kept = Checkpoint.objects.filter(state__in=stored, **which)
    others = (ArchivePart.objects.filter(**which), EpisodePack.objects.filter(**which))
    # What cannot be committed any more goes by itself (checkpoints/leftovers.py).
    since = timezone.now() - timedelta(seconds=settings.TRANSFER_URL_S)
    pending = Upload.objects.filter(
        pending_bytes__gt=0, created_at__gt=since, session__state__in=WITH_RUNTIME, **which
    ).aggregate(total=Sum("pending_bytes"))
    return (pending["total"] or 0) + sum(
        rows.aggregate(total=Sum("size_bytes"))["total"] or 0 for rows in (kept, *others)
    )
