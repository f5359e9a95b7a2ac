"""Several engines behind one: each has the whole model and devices of its own, and serves a part of the episodes.

An episode stays with the engine that served its first call, which has its conversation in the cache of prefixes; that
was the one with the fewest calls in flight then. To the learner they are one engine: weights go to all at once, and no
call begins under a version before every engine has it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from gpu_runtime.engine.watched import WatchedEngine
from gpu_runtime.interfaces import Delta, Engine, SamplingOptions

MAX_EPISODES = 50_000  # whose engine is known; one that is forgotten costs its next call a prefix


class Replicas:
    """interfaces.Engine around several. Each has a clock of its own: one that is stuck shows though others sample."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.parts = tuple(map(WatchedEngine, engines))
        self._calls = [0] * len(engines)  # in flight, by engine
        self._episodes = [0] * len(engines)  # ever begun, by engine
        self._engine_of: OrderedDict[str, int] = OrderedDict()  # the episode of the latest call last
        self._open = asyncio.Event()
        self._open.set()

    def stuck(self) -> str | None:
        """Why one of them counts as stuck, or None. May be asked from any thread."""
        causes = [(index, part.stuck()) for index, part in enumerate(self.parts)]
        return next((f"engine {index} of {len(self.parts)}: {cause}" for index, cause in causes if cause), None)

    def advance(self) -> None:
        """Record progress of all."""
        for part in self.parts:
            part.advance()

    @property
    def version(self) -> int:
        """The policy version that all of them serve; in the middle of a hand-over the one before it."""
        return min(part.version for part in self.parts)

    @version.setter
    def version(self, version: int) -> None:
        for part in self.parts:
            part.version = version

    @property
    def context_length(self) -> int:
        """Prompt plus answer of one call, in tokens."""
        return min(part.context_length for part in self.parts)

    @property
    def shares_device(self) -> bool:
        """Whether they must sleep while the trainer uses the devices."""
        return any(part.shares_device for part in self.parts)

    @property
    def dead(self) -> bool:
        """Whether a process of one of them has ended: no engine stands in for another."""
        return any(part.dead for part in self.parts)

    @property
    def ending(self) -> str:
        """How the process of the first that is dead ended, in words."""
        return next(part.ending for part in self.parts if part.dead)

    async def generate(
        self, request_id: str, prompt_ids: Sequence[int], options: SamplingOptions
    ) -> AsyncGenerator[Delta, None]:
        """The stream of the episode's engine. Raises EngineDead, RequestRefused."""
        while not self._open.is_set():
            await self._open.wait()
        index = self._choose(options.episode_id)
        self._calls[index] += 1
        stream = self.parts[index].generate(request_id, prompt_ids, options)
        try:
            async for delta in stream:
                yield delta
        finally:
            self._calls[index] -= 1
            await stream.aclose()

    def _choose(self, episode_id: str) -> int:
        """The episode's engine, by index; of one that has none yet, and of a call of none, the least loaded."""
        if episode_id in self._engine_of:
            self._engine_of.move_to_end(episode_id)
            return self._engine_of[episode_id]
        index = min(range(len(self.parts)), key=lambda each: (self._calls[each], self._episodes[each]))
        self._episodes[index] += 1
        if episode_id:
            self._engine_of[episode_id] = index
            if len(self._engine_of) > MAX_EPISODES:
                self._engine_of.popitem(last=False)
        return index

    async def load_weights(self, folder: Path, version: int) -> None:
        """All take the weights at once; calls in flight end first or are kept, and new ones wait for the last engine.

        Raises EngineDead, WeightsRefused as soon as one does; then no call begins any more;
        those that an engine kept in flight go on until the runtime ends.
        """
        self._open.clear()
        await self._all(lambda part: part.load_weights(folder, version))
        self._open.set()

    async def sleep(self) -> None:
        """All free the memory of their devices. Raises EngineDead."""
        self._open.clear()
        await self._all(lambda part: part.sleep())

    async def wake(self) -> None:
        """All serve again. Raises EngineDead."""
        await self._all(lambda part: part.wake())
        self._open.set()

    async def close(self) -> None:
        """End every process of every engine, also where one does not end as it should."""
        await _close(self.parts)

    async def _all(self, work: Callable[[WatchedEngine], Coroutine[Any, Any, None]]) -> None:
        tasks = [asyncio.create_task(work(part)) for part in self.parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def engines_start(
    starts: Sequence[Callable[[], Coroutine[Any, Any, Engine]]], *, on_progress: Callable[[], None]
) -> Engine:
    """The engine of the one start, or the ``Replicas`` of several; ``on_progress`` is called after each.

    One after the other: an engine's processes get their devices by the environment of this one. Raises what a start
    raises, and no engine is left then.
    """
    engines: list[Engine] = []
    try:
        for start in starts:
            engines.append(await start())
            on_progress()
    except BaseException:
        await _close(engines)
        raise
    return engines[0] if len(engines) == 1 else Replicas(engines)


async def _close(engines: Sequence[Engine]) -> None:
    for ended in await asyncio.gather(*(engine.close() for engine in engines), return_exceptions=True):
        if isinstance(ended, BaseException):
            raise ended
