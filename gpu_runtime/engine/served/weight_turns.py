"""Requests for different weights take turns on an engine that holds one set of weights at a time.

Requests for the weights that are served run side by side. One for other weights waits until those
have ended; then the engine changes, and every request that waits for the new weights runs. Requests
that come meanwhile wait behind them, whatever their weights, so that no one waits for ever. While
the engine is held, for a hand-over or to sleep, none begins.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

Change = Callable[[Path | None], Awaitable[None]]


class WeightTurns:
    """``change`` makes the engine serve the weights of a folder, None for its own, while no request
    runs.
    """

    def __init__(self, change: Change) -> None:
        self._change = change
        self._served: Path | None = None
        # False after a change that failed: what is served then is not relied on
        self._is_known = True
        self.running = 0  # requests
        self._waiting: deque[tuple[Path | None, asyncio.Future[None]]] = deque()
        self._changing: asyncio.Future[None] | None = None
        self.is_held = False
        self._ended = asyncio.Event()  # set while no request runs and nothing changes
        self._ended.set()

    @property
    def waiting(self) -> int:
        """How many requests wait for a turn."""
        return sum(not turn.done() for _, turn in self._waiting)

    @asynccontextmanager
    async def of(self, weights: Path | None) -> AsyncIterator[None]:
        """The engine serves ``weights`` as long as the block lasts. Raises what ``change``
        raises.
        """
        await self._enter(weights)
        try:
            yield
        finally:
            self._leave()

    async def hold(self, *, keeps: bool) -> None:
        """Let no request begin until ``release``; return once those that run have ended, or at once
        if it ``keeps`` them.
        """
        self.is_held = True
        if not keeps:
            await self._ended.wait()

    def release(self) -> None:
        """Requests begin again."""
        self.is_held = False
        self._advance()

    def restart(self) -> None:
        """The engine, held until now, was loaded again, and serves its own weights."""
        self._served, self._is_known = None, True
        self.release()

    async def _enter(self, weights: Path | None) -> None:
        if not self._waiting and self._serves(weights):
            self._begin()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((weights, turn))
        self._advance()
        try:
            await turn
        except asyncio.CancelledError:
            # the turn came at the same moment; a failed change gives none
            if not turn.cancelled() and turn.exception() is None:
                self._leave()
            raise

    def _begin(self) -> None:
        self.running += 1
        self._ended.clear()

    def _leave(self) -> None:
        self.running -= 1
        if not self.running:
            self._ended.set()
        self._advance()

    def _serves(self, weights: Path | None) -> bool:
        return (
            not self.is_held
            and self._changing is None
            and self._is_known
            and weights == self._served
        )

    def _advance(self) -> None:
        while self._waiting and self._waiting[0][1].done():  # cancelled
            self._waiting.popleft()
        if not self._waiting or self._changing is not None or self.is_held:
            return
        wanted = self._waiting[0][0]
        if self._serves(wanted):
            self._grant(wanted, None)
        elif not self.running:
            self._ended.clear()
            self._changing = asyncio.ensure_future(self._change(wanted))
            self._changing.add_done_callback(partial(self._changed, wanted))

    def _changed(self, weights: Path | None, change: asyncio.Future[None]) -> None:
        error = asyncio.CancelledError() if change.cancelled() else change.exception()
        self._served, self._is_known, self._changing = weights, error is None, None
        self._ended.set()
        if error is not None or not self.is_held:
            self._grant(weights, error)
        self._advance()

    def _grant(self, weights: Path | None, error: BaseException | None) -> None:
        """The turn of all that wait for ``weights``, or its failure."""
        rest: deque[tuple[Path | None, asyncio.Future[None]]] = deque()
        for wanted, turn in self._waiting:
            if turn.done():
                continue
            if wanted != weights:
                rest.append((wanted, turn))
            elif error is not None:
                turn.set_exception(error)
            else:
                self._begin()
                turn.set_result(None)
        self._waiting = rest
