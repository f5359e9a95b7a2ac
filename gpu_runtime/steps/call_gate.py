"""The gate between calls and an engine whose weights are changed for the comparison.

The rehearsal hands over changed weights: no call may be sampled then. Those in flight end first, and
new ones wait until the base weights are back. For some seconds after the gateway has opened the
rehearsal leaves the engine to the first call, for which somebody waits.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from gpu_runtime.interfaces import Delta, SamplingOptions, TokenSource

FIRST_CALL_S = 10.0  # after the gateway has opened


class CallGate:
    """Open at first. Any number of ``call`` blocks, or one ``alone`` block, run at a time."""

    def __init__(self) -> None:
        self._open, self._idle = asyncio.Event(), asyncio.Event()
        self._open.set()
        self._idle.set()
        self._calls = 0
        self._served, self._first_call_until = asyncio.Event(), 0.0

    def calls_begin(self) -> None:
        """The gateway has opened: the first call is to be expected."""
        self._first_call_until = time.monotonic() + FIRST_CALL_S

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """No call is in the engine during the block; if it raises, none gets there any more."""
        if (left_s := self._first_call_until - time.monotonic()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._served.wait()
        self._open.clear()
        await self._idle.wait()
        yield
        self._open.set()

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """One call, once no ``alone`` holds it back."""
        while not self._open.is_set():
            await self._open.wait()
        self._calls += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            self._served.set()
            if not self._calls:
                self._idle.set()


class AdmittedCalls:
    """interfaces.TokenSource: ``engine`` for the calls of the gateway, which ``gate`` holds
    back.
    """

    def __init__(self, engine: TokenSource, gate: CallGate) -> None:
        self._engine, self._gate = engine, gate

    @property
    def context_length(self) -> int:
        """Prompt plus answer of one call, in tokens."""
        return self._engine.context_length

    async def generate(
        self, request_id: str, prompt_ids: Sequence[int], options: SamplingOptions
    ) -> AsyncGenerator[Delta, None]:
        """The engine's own stream. Raises EngineDead, RequestRefused."""
        async with self._gate.call():
            stream = self._engine.generate(request_id, prompt_ids, options)
            try:
                async for delta in stream:
                    yield delta
            finally:
                await stream.aclose()
