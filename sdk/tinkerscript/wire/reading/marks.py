"""What the charts of a run are marked with: committed checkpoints, refused steps, changed options,
and restarts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..events import EventKind
from ..sessions import SessionState

MARKED_NAMES = ("checkpoint_committed", "step_refused", "config_changed")
# A run that goes back to the queue from one of these had a runtime.
RESTARTED_FROM = (
    SessionState.PROVISIONING,
    SessionState.LOADING,
    SessionState.READY,
    SessionState.STOPPING,
)


def is_mark(kind: str, data: Mapping[str, Any]) -> bool:
    """Whether an entry of the record is one."""
    if kind == EventKind.STATE:
        return data.get("to") == SessionState.QUEUED and data.get("from") in RESTARTED_FROM
    return kind == EventKind.EVENT and data.get("name") in MARKED_NAMES


def marks_thin(marks: Sequence[tuple[int, str]], limit: int) -> list[int]:
    """The cursors of at most ``limit`` of these marks (cursor, what it is; oldest first), in order.

    Where there are more, each kind has an equal share, and what a rare one leaves of its own goes
    to the others; of a kind that has more than its share, marks at equal distances from its first
    to its last.
    """
    by_kind: dict[str, list[int]] = {}
    for cursor, kind in marks:
        by_kind.setdefault(kind, []).append(cursor)
    kept: list[int] = []
    left = limit
    for kinds_left, cursors in zip(
        range(len(by_kind), 0, -1), sorted(by_kind.values(), key=len), strict=True
    ):
        share = min(len(cursors), left // kinds_left)
        kept += (
            [cursors[at * (len(cursors) - 1) // (share - 1)] for at in range(share)]
            if share > 1
            else cursors[-share:][:share]
        )
        left -= share
    return sorted(kept)
