"""The threads in which Django does what a request needs outside the event loop, and their connections to the database.

Django would give each request a thread of its own, and asgiref a second one that waits for the end of the first: 0.3 ms
of CPU. What a thread keeps beside its stack are connections to the database. At the end of a request Django closes
them, so that the thread is as good as new, and they wait for any thread's next (console/config/kept_connections.py).
"""

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import ThreadSensitiveContext
from django.db import connections

P = ParamSpec("P")
T = TypeVar("T")

MAX_KEPT = 8  # of one process, as connections that are kept; what more it needs at once is made anew


class KeptThreads:
    """An ASGI application whose requests each have a thread of ``application`` to themselves, while they last."""

    def __init__(self, application: Callable[..., Awaitable[None]]) -> None:
        self._application = application
        self._idle: list[ThreadPoolExecutor] = []  # of one thread each; the last used is taken first

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        executor = self._idle.pop() if self._idle else ThreadPoolExecutor(1, thread_name_prefix="request")
        is_done = False
        try:
            async with ThreadSensitiveContext(executor=executor):
                await self._application(scope, receive, send)
            is_done = True
        finally:
            if is_done and len(self._idle) < MAX_KEPT:
                self._idle.append(executor)
            else:  # after an error or a cancellation it may be at work still
                executor.submit(connections.close_all)
                executor.shutdown(wait=False)


def released_after(read: Callable[P, T]) -> Callable[P, T]:
    """``read``, after which its thread holds no connection, but for one in a transaction.

    For a request that goes on to wait: as many as there are clients may do so at once.
    """

    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        finally:
            for connection in connections.all(initialized_only=True):
                if not connection.in_atomic_block:
                    connection.close()

    return reading
