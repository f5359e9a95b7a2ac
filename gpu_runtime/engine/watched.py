"""An engine with a clock: for how long calls have waited without one token being sampled for any of them.

One clock for all calls: while the engine serves others, a call that waits for its turn is no sign that it is stuck.
"""

import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpu_runtime.errors import RequestRefused
from gpu_runtime.health.deadlines import DEADLINES_S, Phase
from gpu_runtime.interfaces import Delta, Engine, SamplingOptions


class WatchedEngine:
    """interfaces.Engine around another one. ``stuck`` may be asked from any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._calls = 0
        self._busy_otherwise = 0  # it takes weights or sleeps: silence is expected
        self._sampled_at = time.monotonic()

    def stuck(self) -> str | None:
        """Why the engine counts as stuck, or None."""
        silent_s = time.monotonic() - self._sampled_at
        if self._busy_otherwise or not self._calls or silent_s <= DEADLINES_S[Phase.GENERATION]:
            return None
        return f"the engine sampled nothing for {silent_s:.0f} s while {self._calls} calls waited for it"

    def advance(self) -> None:
        """Record progress: the time that the engine may stay silent starts again."""
        self._sampled_at = time.monotonic()

    @property
    def version(self) -> int:
        """The policy version being served."""
        return self._engine.version

    @version.setter
    def version(self, version: int) -> None:
        self._engine.version = version

    @property
    def context_length(self) -> int:
        """Prompt plus answer of one call, in tokens."""
        return self._engine.context_length

    @property
    def shares_device(self) -> bool:
        """Whether the engine must sleep while the trainer uses the device."""
        return self._engine.shares_device

    @property
    def dead(self) -> bool:
        """Whether a process of the engine has ended."""
        return self._engine.dead

    @property
    def ending(self) -> str:
        """How the engine's process ended, in words."""
        return self._engine.ending

    async def generate(
        self, request_id: str, prompt_ids: Sequence[int], options: SamplingOptions
    ) -> AsyncGenerator[Delta, None]:
        """The engine's own stream; each piece is a sign of life."""
        if self._calls == 0:
            self.advance()
        self._calls += 1
        stream = self._engine.generate(request_id, prompt_ids, options)
        try:
            async for delta in stream:
                self.advance()
                yield delta
        except RequestRefused:  # it said so: calls that are refused one after another are no silence
            self.advance()
            raise
        finally:
            self._calls -= 1
            await stream.aclose()

    async def load_weights(self, folder: Path, version: int) -> None:
        """Serve the weights in ``folder`` as ``version``; silence does not count as stuck meanwhile."""
        with self._otherwise_busy():
            await self._engine.load_weights(folder, version)

    async def sleep(self) -> None:
        """Free the device's memory; until ``wake``, silence does not count as stuck."""
        self._busy_otherwise += 1
        await self._engine.sleep()

    async def wake(self) -> None:
        """Serve again, and count silence from now on."""
        try:
            await self._engine.wake()
        finally:
            self.advance()
            self._busy_otherwise -= 1

    async def close(self) -> None:
        """End every process of the engine."""
        await self._engine.close()

    @contextmanager
    def _otherwise_busy(self) -> Iterator[None]:
        self._busy_otherwise += 1
        try:
            yield
        finally:
            self.advance()
            self._busy_otherwise -= 1
