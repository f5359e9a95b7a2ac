"""What the gateway refused of an episode's calls: counted while it is open, kept in the journal when it is over.

A tally: what was refused of open episodes is forgotten where their runtime is killed.
"""

from collections import deque
from typing import Any

from tinkerscript.wire.episodes import MAX_REFUSED_TEXT, MAX_REFUSED_TOLD, RefusedCall, RefusedCalls

NAME = "calls_refused"


class RefusalTally:
    """Of one open episode."""

    def __init__(self) -> None:
        self._count = 0
        self._last: deque[RefusedCall] = deque(maxlen=MAX_REFUSED_TOLD)

    def add(self, *, at: float, status: int, path: str, message: str) -> None:
        """One more. Of equal ones in a row the last alone is kept."""
        self._count += 1
        call = RefusedCall(at=at, status=status, path=path[:MAX_REFUSED_TEXT], message=message[:MAX_REFUSED_TEXT])
        if self._last and (self._last[-1].path, self._last[-1].message) == (call.path, call.message):
            self._last.pop()
        self._last.append(call)

    def view(self) -> RefusedCalls | None:
        """None where nothing was refused."""
        return RefusedCalls(count=self._count, last=list(self._last)) if self._count else None


class RefusalNotices:
    """Which of a session's episodes with refused calls are told of: the first, and each time their number doubled."""

    def __init__(self) -> None:
        self._episodes = 0

    def told(self) -> bool:
        """Whether one more such episode is told of."""
        self._episodes += 1
        return self._episodes & (self._episodes - 1) == 0


def calls_refused(episode_id: str, refused: RefusedCalls) -> dict[str, Any]:
    """The event about it, without the messages: they may quote what the agent sent, and are erased with the episode."""
    last, many = refused.last[-1], "1 call" if refused.count == 1 else f"{refused.count} calls"
    were = "was" if refused.count == 1 else "were"
    event = {"name": NAME, "episode_id": episode_id, "count": refused.count}
    reason = f"{many} of episode {episode_id} {were} refused, the last with {last.status} at {last.path}"
    return event | {
        "reason": reason,
        "hint": "Its page has the messages, and so has tinkerscript episodes --list.",
    }
