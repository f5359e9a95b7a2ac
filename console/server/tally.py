"""How much of something a process has under way: calls and bytes of the relay, watchers, transfers.

Each web process counts in its own memory: no count waits for a disk and none can fail. Where
several serve (with Redis), such a limit holds for each of them; it protects a process's memory, not
a quota.
"""

from collections import Counter


class Tally(Counter[str]):
    """How much is under way, by who has it. One thread alone counts."""

    def __init__(self) -> None:
        super().__init__()
        self.of_all = 0

    def count(self, key: str, amount: int) -> tuple[int, int]:
        """Count so much more of ``key``, or less; how much of it and of all keys there is then."""
        self[key] += amount
        self.of_all += amount
        if self[key] <= 0:
            del self[key]
        return self[key], self.of_all
