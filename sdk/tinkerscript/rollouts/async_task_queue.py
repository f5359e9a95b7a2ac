"""session.tasks of an AsyncTinkerScript: the same queue, awaited."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from tinkerscript.reports import Report
from tinkerscript.wire.queue.tasks import TaskCounts

from .task_queue import TaskQueue


class AsyncTaskQueue:
    """Example: ``await session.tasks.put(rows); await session.tasks.wait(timeout_s=3600)``"""

    def __init__(
        self, queue: TaskQueue, run: Callable[[Callable[[], Any]], Awaitable[Any]]
    ) -> None:
        self._queue, self._run = queue, run

    async def put(
        self,
        rows: Iterable[Any],
        *,
        attempts: int | None = None,
        eval: bool = False,
        tries: int = 3,
        task_name: Callable[[Any], str] | None = None,
        judged: bool = False,
    ) -> TaskCounts:
        """As TaskQueue.put()."""
        put = partial(
            self._queue.put,
            rows,
            attempts=attempts,
            eval=eval,
            tries=tries,
            task_name=task_name,
            judged=judged,
        )
        return await self._run(put)

    async def evaluate(
        self,
        rows: Iterable[Any],
        *,
        attempts: int = 1,
        tries: int = 3,
        task_name: Callable[[Any], str] | None = None,
        judged: bool = False,
        name: str = "eval",
        timeout_s: float = 86_400.0,
    ) -> Report:
        """As TaskQueue.evaluate(), in a thread: the loop goes on."""
        evaluate = partial(
            self._queue.evaluate,
            rows,
            attempts=attempts,
            tries=tries,
            task_name=task_name,
            judged=judged,
            name=name,
            timeout_s=timeout_s,
        )
        return await self._run(evaluate)

    async def counts(self) -> TaskCounts:
        """As TaskQueue.counts()."""
        return await self._run(self._queue.counts)

    async def wait(self, timeout_s: float = 86_400.0) -> TaskCounts:
        """As TaskQueue.wait(), in a thread: the loop goes on."""
        return await self._run(partial(self._queue.wait, timeout_s))
