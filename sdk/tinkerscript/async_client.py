"""AsyncTinkerScript: the client for asyncio. Every wait is one that lets the loop go on.

It drives a TinkerScript in threads of its own, one for each call under way, so that both retry,
wait and fail alike.
"""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from .arguments import NamedArguments, parameters_of
from .client import TinkerScript, options_check
from .connection import forks
from .connection.waiting import Wait
from .episodes.async_episode import (
    AsyncEpisode,
    Awaiting,
    BeginningEpisode,
    awaited,
    belongs_to_its_loop,
)
from .episodes.begins import give_up
from .episodes.current_episode import CurrentEpisode
from .episodes.episode import Episode
from .episodes.episode_state import EpisodeState
from .errors import ClientClosed
from .reports import Report
from .rollouts.task_queue import TaskQueue
from .wire.episodes import EpisodeView
from .wire.events import Event, EventKind

T = TypeVar("T")
END = object()
MAX_THREADS = 4096  # they are made as they are needed


class AsyncTaskQueue(Awaiting[TaskQueue]):
    """As TaskQueue, whose parameters, results and errors its methods have. They wait in a thread:
    the loop goes on.

    Example: ``await session.tasks.put(rows); await session.tasks.wait(timeout_s=3600)``
    """

    put = awaited(TaskQueue.put)
    evaluate = awaited(TaskQueue.evaluate)
    counts = awaited(TaskQueue.counts)
    wait = awaited(TaskQueue.wait)


class AsyncTinkerScript(NamedArguments):
    """As TinkerScript, for asyncio: the same options and methods, awaited. ``async with`` starts
    and closes it.

    Example::

        async with AsyncTinkerScript("SmolLM2-135M-Instruct") as session:
            async with session.episode("3+4") as (base_url, api_key):
                await session.end_episode(await my_agent(base_url, api_key))
            model = await session.download_tuned_model()
    """

    made_by = TinkerScript.made_by.replace("TinkerScript(", "AsyncTinkerScript(")
    __reduce__ = belongs_to_its_loop

    @parameters_of(TinkerScript.__init__)
    def __init__(self, *values: Any, **named: Any) -> None:
        """Check the options; ``async with`` or ``await`` then starts or attaches. Arguments are
        TinkerScript's.
        """
        self._start = partial(TinkerScript, *values, **named)
        bound = inspect.signature(TinkerScript.__init__).bind(None, *values, **named)
        bound.apply_defaults()
        options_check(bound.arguments)
        self._session: TinkerScript | None = None
        self._current = CurrentEpisode()
        self.after_fork()
        forks.watch(self)

    def after_fork(self) -> None:
        """Called in a forked process, where the parent's threads are not."""
        self._threads = ThreadPoolExecutor(MAX_THREADS, "tinkerscript-async")

    @property
    def sync(self) -> TinkerScript:
        """The session itself. Its calls block; its attributes, such as ``config``, do not. Raises
        ClientClosed.
        """
        if self._session is None:
            raise ClientClosed(
                "It was not started.", hint="Use `async with AsyncTinkerScript(...) as session`."
            )
        return self._session

    @property
    def id(self) -> str:
        """The session's id."""
        return self.sync.id

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self.sync.closed

    # Of Session: parameters, results and errors are the same.
    status = awaited(TinkerScript.status)
    accounting = awaited(TinkerScript.accounting)
    flush = awaited(TinkerScript.flush)
    episode_calls = awaited(TinkerScript.episode_calls)
    checkpoints = awaited(TinkerScript.checkpoints)
    save_checkpoint = awaited(TinkerScript.save_checkpoint)
    download_tuned_model = awaited(TinkerScript.download_tuned_model)
    download_checkpoint = awaited(TinkerScript.download_checkpoint)
    download_batch = awaited(TinkerScript.download_batch)
    download_record = awaited(TinkerScript.download_record)
    download_episodes = awaited(TinkerScript.download_episodes)
    rescore = awaited(TinkerScript.rescore)
    update = awaited(TinkerScript.update)
    stop = awaited(TinkerScript.stop)
    suspend = awaited(TinkerScript.suspend)
    resume = awaited(TinkerScript.resume)
    plot = awaited(TinkerScript.plot)

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

    async def begin_episode(
        self, task: str | None = None, eval: bool = False, timeout: float | None = None
    ) -> AsyncEpisode:
        """Begin one run of the agent; it becomes the current episode of this asyncio task. As
        TinkerScript's.

        Cancelled while it waits, it leaves no episode behind.
        """
        supersedes, wait = self._current.superseded(), Wait()
        begin = partial(
            self.sync.begin_for, wait, supersedes, task=task, eval=eval, timeout=timeout
        )
        under_way: Future[tuple[EpisodeState, Episode]] = self._submit(begin)
        try:
            state, episode = await asyncio.wrap_future(under_way)
        except asyncio.CancelledError:
            give_up(under_way, lambda begun: begun[0].abandon("cancelled"), wait)
            raise
        self._current.set(state)
        return AsyncEpisode(episode, self._run)

    def episode(
        self, task: str | None = None, eval: bool = False, timeout: float | None = None
    ) -> BeginningEpisode:
        """For ``async with session.episode(task) as (base_url, api_key)``: what is not ended in it
        is abandoned.
        """
        return BeginningEpisode(lambda: self.begin_episode(task, eval, timeout))

    async def end_episode(
        self, workflow_output: Any, *, episode: AsyncEpisode | None = None
    ) -> EpisodeView:
        """End ``episode``, or else the current one of this asyncio task. As TinkerScript's."""
        if episode is not None:
            return await episode.end(workflow_output)
        current = self._current.to_end(workflow_output)
        return await self._run(partial(current.end, workflow_output))

    async def abort_episode(
        self, reason: str | BaseException = "aborted", *, episode: AsyncEpisode | None = None
    ) -> EpisodeView:
        """Abandon ``episode``, or else the current one of this asyncio task. As TinkerScript's."""
        if episode is not None:
            return await episode.abandon(reason)
        return await self._run(partial(self._current.to_abandon().abandon, reason))

    async def rollouts(
        self, agent: Callable[..., Any], tasks: Iterable[Any], **options: Any
    ) -> Report:
        """As TinkerScript.rollouts(). A coroutine function runs in this loop, any other agent in a
        thread.
        """
        return await self._run_all(self.sync.rollouts, agent, tasks, options)

    async def evaluate(
        self, agent: Callable[..., Any], tasks: Iterable[Any], **options: Any
    ) -> Report:
        """As TinkerScript.evaluate(); agents as in rollouts()."""
        return await self._run_all(self.sync.evaluate, agent, tasks, options)

    @property
    def tasks(self) -> AsyncTaskQueue:
        """The queue that workers pull from: ``await session.tasks.put(rows)``."""
        return AsyncTaskQueue(self.sync.tasks, self._run)

    async def close(self, *, stop: bool | None = None, timeout_s: float = 120.0) -> None:
        """As TinkerScript.close()."""
        if self._session is not None and not self.closed:
            await self._run(partial(self._session.close, stop=stop, timeout_s=timeout_s))
        self._threads.shutdown(wait=False)

    def __await__(self) -> Generator[Any, None, "AsyncTinkerScript"]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> "AsyncTinkerScript":
        if self._session is None:
            starts: Future[TinkerScript] = self._threads.submit(self._start)
            try:
                self._session = await asyncio.wrap_future(starts)
            except asyncio.CancelledError:
                give_up(starts, TinkerScript.close, Wait())  # no one else knows of the session
                raise
        return self

    async def __aexit__(self, *failure: Any) -> None:
        try:
            if self._session is not None and not self.closed:
                await self._run(partial(self._session.__exit__, *failure))
        finally:
            self._threads.shutdown(wait=False)

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._submit(call))

    def _submit(self, call: Callable[[], T]) -> "Future[T]":
        if self._session is not None and self.closed:
            raise ClientClosed("The session was used after close().")
        return self._threads.submit(call)

    async def _run_all(
        self,
        run: Callable[..., Report],
        agent: Callable[..., Any],
        tasks: Iterable[Any],
        options: dict[str, Any],
    ) -> Report:
        cancelled = threading.Event()
        try:
            return await self._run(
                partial(run, self._in_this_loop(agent), tasks, cancelled=cancelled, **options)
            )
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def _in_this_loop(self, agent: Callable[..., Any]) -> Callable[[Any, Episode], Any]:
        if not inspect.iscoroutinefunction(agent):
            return agent
        loop = asyncio.get_running_loop()

        def run(task: Any, episode: Episode) -> Any:
            return asyncio.run_coroutine_threadsafe(
                agent(task, AsyncEpisode(episode, self._run)), loop
            ).result()

        return run
