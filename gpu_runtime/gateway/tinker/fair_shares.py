"""Whose turn it is, of clients that share a runtime: that of the client that had the fewest tokens.

Start-time fair queueing (Goyal, Vin and Cheng 1996, algorithm SFQ) over the tokens that were
computed for each client. A client that was away has no claim from that time: it begins where the
others are.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

# What an operation without tokens counts, so that saves without end are no way around the order;
# inexact, as what they cost depends on the model.
OTHER_TOKENS = 512
MAX_KNOWN = 1000


class FairShares:
    """Tokens of each client, as far as the order of their turns needs them."""

    def __init__(self) -> None:
        self._had: dict[str, float] = {}
        self._now = 0.0  # what the client had whose turn was last

    def first(self, waiting: Iterable[tuple[str, int]]) -> tuple[str, int] | None:
        """Of pairs of a client and the number of an arrival: whose turn it is."""
        return min(waiting, key=lambda each: (self._start(each[0]), each[1]), default=None)

    def begin(self, client: str) -> None:
        """Its turn begins."""
        self._now = self._had[client] = self._start(client)
        if len(self._had) > MAX_KNOWN:  # who is not ahead is as good as new
            self._had = {name: had for name, had in self._had.items() if had > self._now}

    def charge(self, client: str, tokens: int) -> None:
        """So many were computed for it; 0: something that has none."""
        self._had[client] = self._start(client) + (tokens or OTHER_TOKENS)

    def _start(self, client: str) -> float:
        return max(self._had.get(client, 0.0), self._now)


class FairRoom:
    """Room for ``size`` sequences in an engine, given by turns as FairShares has them."""

    def __init__(self, size: int) -> None:
        self._size = self._free = size
        self._shares, self._arrivals = FairShares(), 0
        # of each client by number, in the order in which they came: how many, and its turn
        self._waiting: dict[str, dict[int, tuple[int, asyncio.Future[None]]]] = {}

    @property
    def waiting(self) -> int:
        """How many wait for room."""
        return sum(map(len, self._waiting.values()))

    def charge(self, client: str, tokens: int) -> None:
        """So many were computed for it."""
        self._shares.charge(client, tokens)

    @asynccontextmanager
    async def of(self, client: str, sequences: int) -> AsyncIterator[None]:
        """Room for ``sequences`` of a client, as long as the block lasts; more than there is count
        as all of it.
        """
        size = min(sequences, self._size)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        number = self._arrivals
        self._waiting.setdefault(client, {})[number] = size, turn
        self._give()
        try:
            await turn
            yield
        finally:
            if not self._take_out(client, number):  # it had its room
                self._free += size
            self._give()

    def _take_out(self, client: str, number: int) -> bool:
        found = self._waiting.get(client, {}).pop(number, None)
        if found is not None and not self._waiting[client]:
            del self._waiting[client]
        return found is not None

    def _give(self) -> None:
        while self._waiting:
            oldest = [(client, next(iter(own))) for client, own in self._waiting.items()]
            chosen = self._shares.first(oldest)
            assert chosen is not None, "somebody waits"
            size, turn = self._waiting[chosen[0]][chosen[1]]
            if size > self._free:
                return
            self._take_out(*chosen)
            self._shares.begin(chosen[0])
            self._free -= size
            turn.set_result(None)
