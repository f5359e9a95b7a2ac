"""The engines of a session behind one, each with a clock: for how long calls have waited without
one token being sampled for any of them.

Each of several has the whole model and devices of its own, and serves a part of the episodes. An
episode stays with the engine that served its first call, which has its conversation in the cache of
prefixes; that was the one with the fewest calls in flight then. To the learner they are one engine:
weights go to all at once, and no call begins under a version before every engine has it. While the
rehearsal hands over changed weights (``alone``) no call begins either.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_runtime.errors import RequestRefused
from gpu_runtime.health.status import DEADLINES_S, Phase
from gpu_runtime.interfaces import Delta, Engine, SamplingOptions

FIRST_CALL_S = 10.0  # after the gateway has opened
MAX_EPISODES = 50_000  # whose engine is known; one that is forgotten costs its next call a prefix


@dataclass
class _Load:
    """Of one engine. One clock for all its calls: while it serves others, a call that waits for its
    turn is no sign that it is stuck.
    """

    calls: int = 0  # in flight
    episodes: int = 0  # ever begun
    sampled_at: float = field(default_factory=time.monotonic)

    def advance(self) -> None:
        self.sampled_at = time.monotonic()


class Replicas:
    """interfaces.Engine around one or several ``parts``. ``stuck`` may be asked from any thread."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.parts = tuple(engines)
        self._loads = tuple(_Load() for _ in engines)
        self._is_ordered = 0  # they take weights or sleep: silence is expected
        # the episode of the latest call last
        self._engine_of: OrderedDict[str, int] = OrderedDict()
        self._open, self._admits, self._idle = asyncio.Event(), asyncio.Event(), asyncio.Event()
        for event in (self._open, self._admits, self._idle):
            event.set()
        self._served, self._first_call_until = asyncio.Event(), 0.0

    @classmethod
    def of(cls, engine: Engine) -> "Replicas":
        """Around ``engine``, or itself where it is one."""
        return engine if isinstance(engine, Replicas) else cls([engine])

    def stuck(self) -> str | None:
        """Why one of them counts as stuck, though another samples, or None."""
        for index, load in enumerate(self._loads):
            silent_s = time.monotonic() - load.sampled_at
            if load.calls and not self._is_ordered and silent_s > DEADLINES_S[Phase.GENERATION]:
                which = (
                    "the engine" if len(self.parts) == 1 else f"engine {index} of {len(self.parts)}"
                )
                return (
                    f"{which} sampled nothing for {silent_s:.0f} s while {load.calls} calls "
                    "waited for it"
                )
        return None

    def advance(self) -> None:
        """Record progress: the time that they may stay silent starts again."""
        for load in self._loads:
            load.advance()

    @property
    def version(self) -> int:
        """The policy version that all of them serve; in the middle of a hand-over the one before
        it.
        """
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
        """The stream of the episode's engine; each piece is a sign of life. Raises EngineDead,
        RequestRefused.
        """
        while not (self._open.is_set() and self._admits.is_set()):
            await self._open.wait()
            await self._admits.wait()
        index = self._choose(options.episode_id)
        load = self._loads[index]
        if load.calls == 0:
            load.advance()
        load.calls += 1
        self._idle.clear()
        stream = self.parts[index].generate(request_id, prompt_ids, options)
        try:
            async for delta in stream:
                load.advance()
                yield delta
        except (
            RequestRefused
        ):  # an answer too: calls that are refused one after another are no silence
            load.advance()
            raise
        finally:
            try:
                await stream.aclose()
            finally:
                load.calls -= 1
                self._served.set()
                if not any(each.calls for each in self._loads):
                    self._idle.set()

    def _choose(self, episode_id: str) -> int:
        """The episode's engine, by index; of one that has none yet, and of a call of none, the
        least loaded.
        """
        if episode_id in self._engine_of:
            self._engine_of.move_to_end(episode_id)
            return self._engine_of[episode_id]
        index = min(
            range(len(self.parts)),
            key=lambda each: (self._loads[each].calls, self._loads[each].episodes),
        )
        self._loads[index].episodes += 1
        if episode_id:
            self._engine_of[episode_id] = index
            if len(self._engine_of) > MAX_EPISODES:
                self._engine_of.popitem(last=False)
        return index

    def calls_begin(self) -> None:
        """The gateway has opened: the first call is to be expected."""
        self._first_call_until = time.monotonic() + FIRST_CALL_S

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """No call is in an engine during the block; if it raises, none gets there any more. Those
        in flight end first.

        For some seconds after the gateway has opened the engines are left to the first call, for
        which somebody waits.
        """
        if (left_s := self._first_call_until - time.monotonic()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._served.wait()
        self._admits.clear()
        await self._idle.wait()
        yield
        self._admits.set()

    @asynccontextmanager
    async def device_lent(self) -> AsyncIterator[None]:
        """Where engine and trainer share a device, whose memory does not hold both at work, the
        engines give up theirs meanwhile. Raises EngineDead.
        """
        if self.shares_device:
            await self.sleep()
        try:
            yield
        finally:
            if self.shares_device:
                await self.wake()

    async def load_weights(self, folder: Path, version: int) -> None:
        """All take the weights at once; calls in flight end first or are kept, and new ones wait
        for the last engine.

        Raises EngineDead, WeightsRefused as soon as one does; then no call begins any more;
        those that an engine kept in flight go on until the runtime ends.
        """
        self._open.clear()
        self._is_ordered += 1
        try:
            await self._all(lambda part: part.load_weights(folder, version))
        finally:
            self._end_order()
        self._open.set()

    async def sleep(self) -> None:
        """All free the memory of their devices; until ``wake``, silence is no sign. Raises
        EngineDead.
        """
        self._open.clear()
        self._is_ordered += 1
        await self._all(lambda part: part.sleep())

    async def wake(self) -> None:
        """All serve again. Raises EngineDead."""
        try:
            await self._all(lambda part: part.wake())
        finally:
            self._end_order()
        self._open.set()

    def _end_order(self) -> None:
        self.advance()
        self._is_ordered -= 1

    async def close(self) -> None:
        """End every process of every engine, also where one does not end as it should."""
        await _close(self.parts)

    async def _all(self, work: Callable[[Engine], Coroutine[Any, Any, None]]) -> None:
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
) -> Replicas:
    """The engines of ``starts`` as one; ``on_progress`` is called after each.

    One after the other: an engine's processes get their devices by the environment of this one.
    Raises what a start raises, and no engine is left then.
    """
    engines: list[Engine] = []
    try:
        for start in starts:
            engines.append(await start())
            on_progress()
    except BaseException:
        await _close(engines)
        raise
    return Replicas(engines)


async def _close(engines: Sequence[Engine]) -> None:
    for ended in await asyncio.gather(
        *(engine.close() for engine in engines), return_exceptions=True
    ):
        if isinstance(ended, BaseException):
            raise ended
