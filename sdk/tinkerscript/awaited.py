"""A method of a client that blocks, as one that is awaited."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


class Awaiting(Generic[S]):
    """``sync``, whose calls block, and what makes a call in a thread."""

    def __init__(self, sync: S, run: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        self.sync, self._run = sync, run


def awaited(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A coroutine method of the same name and parameters, which calls ``method`` of ``sync`` in a
    thread.
    """

    @wraps(method)
    async def call(self: Any, *values: P.args, **named: P.kwargs) -> T:
        result: T = await self._run(partial(getattr(self.sync, method.__name__), *values, **named))
        return result

    return call
