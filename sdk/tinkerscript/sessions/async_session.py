"""A session's lists, waits and downloads, awaited: each is the same call of a Session, made in a
thread.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from functools import partial
from typing import TypeVar

from tinkerscript.awaited import awaited
from tinkerscript.wire.episodes import EpisodeView
from tinkerscript.wire.events import Event, EventKind

from .session import Session

T = TypeVar("T")
END = object()


class AsyncSession(ABC):
    """What AsyncTinkerScript has of Session: parameters, results and errors are the same."""

    @property
    @abstractmethod
    def sync(self) -> Session:
        """The session itself, whose calls block."""

    @abstractmethod
    async def _run(self, call: Callable[[], T]) -> T: ...

    status = awaited(Session.status)
    accounting = awaited(Session.accounting)
    flush = awaited(Session.flush)
    episode_calls = awaited(Session.episode_calls)
    checkpoints = awaited(Session.checkpoints)
    save_checkpoint = awaited(Session.save_checkpoint)
    download_tuned_model = awaited(Session.download_tuned_model)
    download_checkpoint = awaited(Session.download_checkpoint)
    download_batch = awaited(Session.download_batch)
    download_record = awaited(Session.download_record)
    download_episodes = awaited(Session.download_episodes)
    rescore = awaited(Session.rescore)
    update = awaited(Session.update)
    stop = awaited(Session.stop)
    suspend = awaited(Session.suspend)
    resume = awaited(Session.resume)
    plot = awaited(Session.plot)

    async def episodes(self) -> AsyncIterator[EpisodeView]:
        """Every episode, newest first."""
        async for view in self._each(self.sync.episodes):
            yield view

    async def events(
        self, after: int = 0, kinds: Collection[EventKind | str] | None = None, follow: bool = False
    ) -> AsyncIterator[Event]:
        """As TinkerScript.events()."""
        async for event in self._each(partial(self.sync.events, after, kinds, follow)):
            yield event

    async def _each(self, iterate: Callable[[], Iterable[T]]) -> AsyncIterator[T]:
        iterator = iter(iterate())
        while (item := await self._run(partial(next, iterator, END))) is not END:
            yield item
