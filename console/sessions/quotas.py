"""What a project may have at once, as set by who runs the server (manage.py set_quota). Devices: queue.py."""

from django.db.models import Sum

from console.errors import QuotaExceeded
from console.sessions.models import Checkpoint, Session
from console.sessions.states import ENDED
from console.users.models import Project
from tinkerscript.wire.checkpoints import CheckpointState

GIB = 1 << 30


def session_quota_check(*, project: Project) -> None:
    """Raises QuotaExceeded when the project has all the sessions it may have. Call it in the creating transaction."""
    row = Project.objects.select_for_update().get(id=project.id)  # two at once must not both take the last place
    if row.session_quota is None:
        return
    used = Session.objects.filter(project=row).exclude(state__in=ENDED).count()
    if used >= row.session_quota:
        raise QuotaExceeded(
            f"This project may have {row.session_quota} sessions that have not ended, and has {used}.",
            hint="Stop one of them, or ask who runs this server for more.",
            details={"limit": row.session_quota, "used": used},
        )


def storage_quota_check(*, project: Project) -> None:
    """Raises QuotaExceeded when the project's checkpoints fill what it may store.

    Automatic ones are written all the same: without them a session could lose what it learned.
    """
    if project.storage_quota_bytes is None:
        return
    committed = Checkpoint.objects.filter(session__project=project, state=CheckpointState.COMMITTED)
    used = committed.aggregate(total=Sum("size_bytes"))["total"] or 0
    if used >= project.storage_quota_bytes:
        raise QuotaExceeded(
            f"This project stores {used / GIB:.2f} GiB of checkpoints and may store "
            f"{project.storage_quota_bytes / GIB:.2f} GiB.",
            hint="Delete checkpoints that you no longer need.",
            details={"limit": project.storage_quota_bytes, "used": used},
        )
