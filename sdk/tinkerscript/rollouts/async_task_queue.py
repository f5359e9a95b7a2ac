"""session.tasks of an AsyncTinkerScript: the same queue, awaited."""

from tinkerscript.awaited import Awaiting, awaited

from .task_queue import TaskQueue


class AsyncTaskQueue(Awaiting[TaskQueue]):
    """As TaskQueue, whose parameters, results and errors its methods have. They wait in a thread:
    the loop goes on.

    Example: ``await session.tasks.put(rows); await session.tasks.wait(timeout_s=3600)``
    """

    put = awaited(TaskQueue.put)
    evaluate = awaited(TaskQueue.evaluate)
    counts = awaited(TaskQueue.counts)
    wait = awaited(TaskQueue.wait)
