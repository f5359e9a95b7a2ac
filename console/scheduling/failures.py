"""What a session's record says when the reconciler gives it up: a code, what happened, what to
do.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.db.models import F

from console.errors import InvalidRequest, UnknownBaseModel
from console.scheduling.models import RestartCount

LOG_LINES = 40
GO_ON = (
    "start a new session, from its last state if it has one: that checkpoint's id is given as "
    "base_model."
)


def runtime_lost(
    *, cause: str, fault: Mapping[str, str], restarts: int, lines: Sequence[str]
) -> dict[str, Any]:
    """Its runtimes kept ending without a completed step.

    ``fault``: why the last one ended, as it reported that itself; ``lines``: those that it wrote.
    """
    last = last_line(lines)
    own = f"{last.rstrip('.')} ({cause})" if last else cause
    why = fault["cause"].rstrip(".") if fault else own
    go_on = f"Once the cause is gone, {GO_ON}"
    return {
        "code": "runtime_lost",
        "cause": f"{why}, after {restarts} restarts without a completed step.",
        "hint": f"{(fault.get('hint') or 'Read the last lines of the log.').rstrip('.')}. {go_on}",
        "log": list(lines[-LOG_LINES:]),
    }


def last_line(lines: Sequence[str]) -> str:
    """What a runtime wrote last, without the time and the place of a line of its log; empty where
    it wrote nothing.
    """
    line = next((line.strip() for line in reversed(lines) if line.strip()), "")
    try:
        entry = json.loads(line) if line.startswith("{") else None
    except ValueError:
        entry = None
    message = entry.get("message") if isinstance(entry, dict) else None
    return message.strip() if isinstance(message, str) else line


def runtime_unended(*, said: str, lasted_s: float) -> dict[str, str]:
    """Its runtime, or an earlier one of it, was killed and is still there: another session gets its
    place.
    """
    return {
        "code": "runtime_unended",
        "cause": f"Its runtime was killed and has not ended for {lasted_s:.0f} s: {said}",
        "hint": f"Whoever runs the server ends it on its machine. Meanwhile {GO_ON}",
    }


def model_gone(error: UnknownBaseModel | InvalidRequest) -> dict[str, str]:
    """The base model of a session that has not run yet was taken from the server after the session
    was asked for.
    """
    return {"code": "model_gone", "cause": str(error), "hint": error.hint}


def disk_full(*, free_bytes: int, needed: str) -> dict[str, str]:
    """A new session has no room where runtimes keep their state."""
    return {
        "code": "disk_full",
        "cause": f"{free_bytes >> 20} MiB are free where runtimes keep their state, {needed} "
        "needed to start one.",
        "hint": f"Free space on the disk of {settings.DATA}, then start a new session.",
    }


def restart_count(*, cause: str) -> None:
    """Count a runtime that is started again. ``cause``: exited, stuck, preempted, or
    not_started.
    """
    RestartCount.objects.get_or_create(cause=cause)
    RestartCount.objects.filter(cause=cause).update(total=F("total") + 1)
