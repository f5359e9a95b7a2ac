"""What the charts of a run are marked with: committed checkpoints, refused steps, and restarts."""

from collections.abc import Mapping
from typing import Any

from ..events import EventKind
from ..sessions import SessionState

MARKED_NAMES = ("checkpoint_committed", "step_refused")
# A run that goes back to the queue from one of these had a runtime.
RESTARTED_FROM = (SessionState.PROVISIONING, SessionState.LOADING, SessionState.READY, SessionState.STOPPING)


def is_mark(kind: str, data: Mapping[str, Any]) -> bool:
    """Whether an entry of the record is one."""
    if kind == EventKind.STATE:
        return data.get("to") == SessionState.QUEUED and data.get("from") in RESTARTED_FROM
    return kind == EventKind.EVENT and data.get("name") in MARKED_NAMES
