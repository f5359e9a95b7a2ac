"""What a loop should hear of its training, from the session's record: said with the end of an episode.

Each kind is said at its first event and again each time that their number has doubled, so that a long run with one
cause is a few lines.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

TOLD = frozenset({
    "nothing_to_learn", "little_to_learn", "entropy_collapse", "answers_collapse", "answers_truncated", "grammar_lost",
    "step_refused", "episodes_stale",
})  # fmt: skip
TOLD_ALREADY = ("nothing to learn", "step_refused")  # why episodes were dropped: each has an event of its own


class Notices:
    """Of one runtime."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._waiting: dict[str, str] = {}  # by kind, until an episode ends

    def add(self, event: Mapping[str, Any]) -> None:
        """An event of the session's record; those that no loop needs to hear of are left."""
        name = str(event.get("name"))
        if name not in TOLD or str(event.get("why", "")).startswith(TOLD_ALREADY):
            return
        self._counts[name] += 1
        count = self._counts[name]
        if count & (count - 1) == 0:
            often = f", {count} times so far" if count > 1 else ""
            said = f"{str(event.get('reason', '')).rstrip('.')}. {event.get('hint') or ''}".strip()
            self._waiting[name] = f"{name} in this session{often}: {said}"

    def take(self) -> str | None:
        """What has not been said yet, in words; it counts as said."""
        said, self._waiting = " ".join(self._waiting.values()), {}
        return said or None
