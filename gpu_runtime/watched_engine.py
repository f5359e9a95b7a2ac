"""An engine with a clock: how long it has owed tokens without sampling one, whatever call they are for.

One clock for all calls: while the engine serves others, a call that waits for its turn is no sign that it is stuck.
"""

import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .deadlines import DEADLINES_S, Phase
from .interfaces import Delta, Engine, SamplingOptions


class WatchedEngine:
    """interfaces.Engine around another one. ``stuck`` may be asked from any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._calls = 0
        self._busy_otherwise = 0  # it takes weights or has lent its device: it owes nothing meanwhile
        self._sampled_at = time.monotonic()

    def stuck(self) -> str | None:
        """Why the engine counts as stuck, or None."""
        silent_s = time.monotonic() - self._sampled_at
        if self._busy_otherwise or not self._calls or silent_s <= DEADLINES_S[Phase.GENERATION]:
            return None
        return f"the engine sampled nothing for {silent_s:.0f} s while {self._calls} calls waited for it"

    def advance(self) -> None:
        """Begin to count anew."""
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
        """Of the engine."""
        return self._engine.context_length

    @property
    def shares_device(self) -> bool:
        """Of the engine."""
        return self._engine.shares_device

    @property
    def dead(self) -> bool:
        """Of the engine."""
        return self._engine.dead

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
        finally:
            self._calls -= 1
            await stream.aclose()

    async def load_weights(self, folder: Path, version: int) -> None:
        """As the engine does."""
        with self._otherwise_busy():
            await self._engine.load_weights(folder, version)

    async def sleep(self) -> None:
        """As the engine does; until ``wake`` it owes nothing."""
        self._busy_otherwise += 1
        await self._engine.sleep()

    async def wake(self) -> None:
        """As the engine does."""
        try:
            await self._engine.wake()
        finally:
            self.advance()
            self._busy_otherwise -= 1

    async def close(self) -> None:
        """As the engine does."""
        await self._engine.close()

    @contextmanager
    def _otherwise_busy(self) -> Iterator[None]:
        self._busy_otherwise += 1
        try:
            yield
        finally:
            self.advance()
            self._busy_otherwise -= 1
