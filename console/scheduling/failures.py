"""What a session's record says when the reconciler gives it up: a code, what happened, what to do."""

from django.conf import settings
from django.db.models import F

from console.scheduling.models import RestartCount


def runtime_lost(*, cause: str, restarts: int, tail: str) -> dict[str, str]:
    """Its runtimes kept ending without a completed step; ``tail``: the last lines that the last one wrote."""
    return {
        "code": "runtime_lost",
        "cause": f"{cause}, after {restarts} restarts without a completed step. Its last lines:\n{tail}",
        "hint": "Read the last lines of the runtime's log. Start a new session once their cause is gone.",
    }


def disk_full(*, free_bytes: int, needed: str) -> dict[str, str]:
    """A new session has no room where runtimes keep their state."""
    return {
        "code": "disk_full",
        "cause": f"{free_bytes >> 20} MiB are free where runtimes keep their state, {needed} needed to start one.",
        "hint": f"Free space on the disk of {settings.DATA}, then start a new session.",
    }


def restart_count(*, cause: str) -> None:
    """Count a runtime that is started again. ``cause``: exited, stuck, preempted, or not_started."""
    RestartCount.objects.get_or_create(cause=cause)
    RestartCount.objects.filter(cause=cause).update(total=F("total") + 1)
