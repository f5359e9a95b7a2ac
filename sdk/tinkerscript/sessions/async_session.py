"""A session's lists, waits and downloads, awaited: each is the same call of a Session, made in a
thread.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TypeVar, Unpack

from tinkerscript.curve import REWARD, Plot
from tinkerscript.downloads.checkpoints import TunedModel
from tinkerscript.wire.calls import EpisodeCalls
from tinkerscript.wire.checkpoints import CheckpointView
from tinkerscript.wire.episodes import EpisodesRescored, EpisodeView
from tinkerscript.wire.events import Event, EventKind
from tinkerscript.wire.sessions import Accounting, SessionView
from tinkerscript.wire.training.changes import ConfigChange

from .changing import ChangeableOptions
from .rescoring import Rewards
from .session import Session

T = TypeVar("T")
END = object()


class AsyncSession(ABC):
    """What AsyncTinkerScript has of Session."""

    @property
    @abstractmethod
    def sync(self) -> Session:
        """The session itself, whose calls block."""

    @abstractmethod
    async def _run(self, call: Callable[[], T]) -> T: ...

    async def status(self) -> SessionView:
        """How the session stands now."""
        return await self._run(self.sync.status)

    async def accounting(self) -> Accounting:
        """Where every begun episode went."""
        return await self._run(self.sync.accounting)

    async def flush(self, timeout_s: float = 1800.0) -> Accounting:
        """As TinkerScript.flush()."""
        return await self._run(partial(self.sync.flush, timeout_s))

    async def episodes(self) -> AsyncIterator[EpisodeView]:
        """Every episode, newest first."""
        async for view in self._each(self.sync.episodes):
            yield view

    async def episode_calls(self, episode_id: str) -> EpisodeCalls:
        """As TinkerScript.episode_calls()."""
        return await self._run(partial(self.sync.episode_calls, episode_id))

    async def events(
        self, after: int = 0, kinds: Collection[EventKind | str] | None = None, follow: bool = False
    ) -> AsyncIterator[Event]:
        """As TinkerScript.events()."""
        async for event in self._each(partial(self.sync.events, after, kinds, follow)):
            yield event

    async def checkpoints(self) -> list[CheckpointView]:
        """Every checkpoint, newest first."""
        return await self._run(self.sync.checkpoints)

    async def save_checkpoint(self, *, timeout_s: float = 1800.0) -> CheckpointView:
        """As TinkerScript.save_checkpoint()."""
        return await self._run(partial(self.sync.save_checkpoint, timeout_s=timeout_s))

    async def download_tuned_model(
        self,
        path: str | PathLike[str] = "tuned_model",
        timeout_s: float = 1800.0,
        progress: bool = True,
    ) -> TunedModel:
        """As TinkerScript.download_tuned_model()."""
        return await self._run(partial(self.sync.download_tuned_model, path, timeout_s, progress))

    async def download_checkpoint(
        self,
        checkpoint_id: str,
        path: str | PathLike[str],
        timeout_s: float = 1800.0,
        progress: bool = True,
    ) -> TunedModel:
        """As TinkerScript.download_checkpoint()."""
        return await self._run(
            partial(self.sync.download_checkpoint, checkpoint_id, path, timeout_s, progress)
        )

    async def download_batch(self, batch: int | str, path: str | PathLike[str]) -> Path:
        """As TinkerScript.download_batch()."""
        return await self._run(partial(self.sync.download_batch, batch, path))

    async def rescore(self, rewards: Rewards) -> EpisodesRescored:
        """As TinkerScript.rescore()."""
        return await self._run(partial(self.sync.rescore, rewards))

    async def update(self, **options: Unpack[ChangeableOptions]) -> ConfigChange:
        """As TinkerScript.update()."""
        return await self._run(partial(self.sync.update, **options))

    async def download_record(
        self, path: str | PathLike[str] = "run", timeout_s: float = 1800.0, progress: bool = True
    ) -> Path:
        """As TinkerScript.download_record()."""
        return await self._run(partial(self.sync.download_record, path, timeout_s, progress))

    async def download_episodes(
        self,
        path: str | PathLike[str] = "episodes",
        timeout_s: float = 1800.0,
        progress: bool = True,
    ) -> list[Path]:
        """As TinkerScript.download_episodes()."""
        return await self._run(partial(self.sync.download_episodes, path, timeout_s, progress))

    async def stop(self) -> SessionView:
        """Ask the server to end the session; harmless when it has ended."""
        return await self._run(self.sync.stop)

    async def suspend(self) -> SessionView:
        """As TinkerScript.suspend()."""
        return await self._run(self.sync.suspend)

    async def resume(self, *, trainer_ranks: int | None = None) -> SessionView:
        """As TinkerScript.resume()."""
        return await self._run(partial(self.sync.resume, trainer_ranks=trainer_ranks))

    async def plot(self, path: str | PathLike[str] | None = None, *, measure: str = REWARD) -> Plot:
        """As TinkerScript.plot()."""
        return await self._run(partial(self.sync.plot, path, measure=measure))

    async def _each(self, iterate: Callable[[], Iterable[T]]) -> AsyncIterator[T]:
        iterator = iter(iterate())
        while (item := await self._run(partial(next, iterator, END))) is not END:
            yield item
