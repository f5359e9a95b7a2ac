"""An episode for asyncio: as Episode, with the calls that reach the server awaited."""

from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from tinkerscript.arguments import NamedArguments
from tinkerscript.wire.episodes import EpisodeView

from .episode import Episode

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

T = TypeVar("T")
Run = Callable[[Callable[[], T]], Awaitable[T]]


def belongs_to_its_loop(self: object) -> NoReturn:
    """In place of ``__reduce__``: raises TypeError with what to send to another process."""
    raise TypeError(
        f"{type(self).__name__} belongs to its event loop and cannot be pickled. To another "
        "process send the session's"
        " .sync, which attaches by id where it arrives, or its .id, for "
        "AsyncTinkerScript(session_id=...) there."
    )


class AsyncEpisode(NamedArguments):
    """An open episode. Unpacks as ``base_url, api_key``; ``async with`` abandons what was not
    ended.
    """

    made_by = Episode.made_by
    __reduce__ = belongs_to_its_loop

    def __init__(self, episode: Episode, run: "Run[Any]") -> None:
        self._episode, self._run = episode, run
        self.id, self.task = episode.id, episode.task
        self.base_url, self.api_key = episode.base_url, episode.api_key
        self.model, self.policy_version = episode.model, episode.policy_version

    def __iter__(self) -> Iterator[str]:
        return iter(self._episode)

    def __repr__(self) -> str:
        return f"<Async{repr(self._episode)[1:]}"

    @property
    def is_open(self) -> bool:
        """Whether it can still be ended, as far as this process knows."""
        return self._episode.is_open

    @property
    def result(self) -> EpisodeView | None:
        """What its end returned; None when this process has not ended it."""
        return self._episode.result

    def openai(self, **options: Any) -> "OpenAI":
        """As Episode.openai()."""
        return self._episode.openai(**options)

    def async_openai(self, **options: Any) -> "AsyncOpenAI":
        """As Episode.async_openai()."""
        return self._episode.async_openai(**options)

    def environment(self, agent: str | None = None) -> dict[str, str]:
        """As Episode.environment()."""
        return self._episode.environment(agent)

    async def end(self, output: Any) -> EpisodeView:
        """As Episode.end()."""
        view: EpisodeView = await self._run(lambda: self._episode.end(output))
        return view

    async def abandon(self, reason: str | BaseException = "abandoned") -> EpisodeView:
        """As Episode.abandon()."""
        view: EpisodeView = await self._run(lambda: self._episode.abandon(reason))
        return view

    async def heartbeat(self) -> EpisodeView:
        """As Episode.heartbeat()."""
        view: EpisodeView = await self._run(self._episode.heartbeat)
        return view

    async def __aenter__(self) -> "AsyncEpisode":
        return self

    async def __aexit__(self, *failure: Any) -> None:
        if self.is_open:
            await self._run(lambda: self._episode.__exit__(*failure))


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
