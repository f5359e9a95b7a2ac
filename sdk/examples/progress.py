"""The quickstart's progress bar: episodes done, and the mean reward of the latest step's worth of
them.
"""

import sys
from collections import deque

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class RewardProgress:
    """A bar on a terminal; a line per step's worth of episodes elsewhere, so that a log stays
    readable.
    """

    def __init__(self, *, total: int, per_step: int) -> None:
        self._rewards: deque[float] = deque(maxlen=per_step)
        self._done, self._total, self._per_step = 0, total, per_step
        columns = (
            TextColumn("episodes"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[reward]}"),
        )
        self._bar = Progress(*columns, TimeElapsedColumn(), console=Console(file=sys.stdout))
        self._task = self._bar.add_task("episodes", total=total, reward="reward  ...")

    def __enter__(self) -> "RewardProgress":
        if sys.stdout.isatty():
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    @property
    def mean(self) -> float:
        """The mean reward of the latest step's worth of episodes; 0 before there are so many."""
        return sum(self._rewards) / self._per_step if len(self._rewards) == self._per_step else 0.0

    def advance(self, reward: float) -> None:
        """One more episode ended with ``reward``."""
        self._rewards.append(reward)
        self._done += 1
        mean = sum(self._rewards) / len(self._rewards)
        if sys.stdout.isatty():
            self._bar.update(self._task, advance=1, reward=f"reward {mean:.2f}")
        elif self._done % self._per_step == 0:
            print(
                f"episodes {self._done}/{self._total}  mean reward of the last {self._per_step}: "
                f"{mean:.2f}",
                flush=True,
            )
