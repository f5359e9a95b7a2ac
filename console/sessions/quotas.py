"""What a project may have at once, as set by who runs the server (manage.py set_quota); queue.py keeps the devices."""

from django.db.models import Sum

from console.errors import QuotaExceeded
from console.sessions.models import ArchivePart, Checkpoint, Session
from console.sessions.moves import WITH_RUNTIME
from console.sessions.queue import devices_each
from console.sessions.states import ENDED
from console.users.models import Project
from tinkerscript.wire.checkpoints import CheckpointState
from tinkerscript.wire.projects import Held, Quotas

GIB = 1 << 30


def quotas_get(*, project: Project) -> Quotas:
    """What the project has now of what can be limited, and its limits."""
    runtimes = Session.objects.filter(project=project, state__in=WITH_RUNTIME).count()
    return Quotas(
        devices=Held(used=runtimes * devices_each(), limit=project.device_quota),
        sessions=Held(used=_sessions_used(project), limit=project.session_quota),
        storage_bytes=Held(used=_storage_used(project), limit=project.storage_quota_bytes),
    )


def session_quota_check(*, project: Project) -> None:
    """Raises QuotaExceeded when the project has all the sessions it may have. Call it in the creating transaction."""
    row = Project.objects.select_for_update().get(id=project.id)  # two at once must not both take the last place
    if row.session_quota is None:
        return
    used = _sessions_used(row)
    if used >= row.session_quota:
        raise QuotaExceeded(
            f"This project may have {row.session_quota} sessions that have not ended, and has {used}.",
            hint="Stop one of them, or ask who runs this server for more.",
            details={"limit": row.session_quota, "used": used},
        )


def storage_quota_check(*, project: Project) -> None:
    """Raises QuotaExceeded when the project's checkpoints and archived episodes fill what it may store.

    Automatic ones are written all the same: without them a session could lose what it learned.
    """
    if project.storage_quota_bytes is None:
        return
    used = _storage_used(project)
    if used >= project.storage_quota_bytes:
        raise QuotaExceeded(
            f"This project stores {used / GIB:.2f} GiB of checkpoints and episodes and may store "
            f"{project.storage_quota_bytes / GIB:.2f} GiB.",
            hint="Delete checkpoints, or sessions that have ended, that you no longer need.",
            details={"limit": project.storage_quota_bytes, "used": used},
        )


def _sessions_used(project: Project) -> int:
    return Session.objects.filter(project=project).exclude(state__in=ENDED).count()


def _storage_used(project: Project) -> int:
    committed = Checkpoint.objects.filter(session__project=project, state=CheckpointState.COMMITTED)
    archived = ArchivePart.objects.filter(session__project=project)
    return sum(rows.aggregate(total=Sum("size_bytes"))["total"] or 0 for rows in (committed, archived))
