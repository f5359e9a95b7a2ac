"""An episode for asyncio, as Episode with the calls that reach the server awaited; and how a method
that blocks becomes one that is awaited.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NoReturn, ParamSpec, TypeVar

from tinkerscript.arguments import NamedArguments
from tinkerscript.wire.episodes import EpisodeView

from .episode import Episode

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

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


def belongs_to_its_loop(self: object) -> NoReturn:
    """In place of ``__reduce__``: raises TypeError with what to send to another process."""
    raise TypeError(
        f"{type(self).__name__} belongs to its event loop and cannot be pickled. To another "
        "process send the session's .sync, which attaches by id where it arrives, or its .id, for "
        "AsyncTinkerScript(session_id=...) there."
    )


class AsyncEpisode(NamedArguments, Awaiting[Episode]):
    """An open episode. Unpacks as ``base_url, api_key``; ``async with`` abandons what was not
    ended.
    """

    made_by = Episode.made_by
    __reduce__ = belongs_to_its_loop

    def __init__(
        self, episode: Episode, run: Callable[[Callable[[], Any]], Awaitable[Any]]
    ) -> None:
        super().__init__(episode, run)
        self.id, self.task = episode.id, episode.task
        self.base_url, self.api_key = episode.base_url, episode.api_key
        self.model, self.policy_version = episode.model, episode.policy_version

    def __iter__(self) -> Iterator[str]:
        return iter(self.sync)

    def __repr__(self) -> str:
        return f"<Async{repr(self.sync)[1:]}"

    @property
    def is_open(self) -> bool:
        """Whether it can still be ended, as far as this process knows."""
        return self.sync.is_open

    @property
    def result(self) -> EpisodeView | None:
        """What its end returned; None when this process has not ended it."""
        return self.sync.result

    def openai(self, **options: Any) -> "OpenAI":
        """As Episode.openai()."""
        return self.sync.openai(**options)

    def async_openai(self, **options: Any) -> "AsyncOpenAI":
        """As Episode.async_openai()."""
        return self.sync.async_openai(**options)

    def environment(self, agent: str | None = None) -> dict[str, str]:
        """As Episode.environment()."""
        return self.sync.environment(agent)

    end = awaited(Episode.end)
    abandon = awaited(Episode.abandon)
    heartbeat = awaited(Episode.heartbeat)

    async def __aenter__(self) -> "AsyncEpisode":
        return self

    async def __aexit__(self, *failure: Any) -> None:
        if self.is_open:
            await self._run(partial(self.sync.__exit__, *failure))


class BeginningEpisode:
    """What AsyncTinkerScript.episode() returns: ``async with`` begins it and abandons what was not
    ended.
    """

    def __init__(self, begin: Callable[[], Awaitable[AsyncEpisode]]) -> None:
        self._begin = begin
        self._episode: AsyncEpisode | None = None

    def __await__(self) -> Generator[Any, None, AsyncEpisode]:
        return self._begin().__await__()

    async def __aenter__(self) -> AsyncEpisode:
        self._episode = await self._begin()
        return self._episode

    async def __aexit__(self, *failure: Any) -> None:
        if self._episode is not None:
            await self._episode.__aexit__(*failure)
