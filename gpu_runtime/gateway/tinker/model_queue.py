"""The operations that were taken and wait: of each model in the order of its numbers, of all models
in the order of their clients' shares.

Chunks of one call arrive in any order, and a number that never comes must not stall those after it:
it counts as used up after GAP_S. Nothing here is written down or done.
"""

import asyncio
import hashlib
import logging
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from gpu_runtime.gateway.tinker.fair_shares import FairShares
from gpu_runtime.journal.model_table import CREATE, Operation
from gpu_runtime.refusals import BadRequest, NotFound
from tinkerscript.wire.tinker.ids import client_of

# a client tries for 300 s, and 30 s more for its last try, to send a number before it gives it up
GAP_S = 330.0
# numbers that may be missing before one that comes: each is written down when it is given up
MAX_GAP = 4096
# What can be joined: a short call is not worth a pass of its own. A token has 12 to 36 bytes.
JOINABLE, SHORT_BYTES, JOINED_BYTES = "forward_backward", 8 << 10, 16 << 10
MISSING = "missing"  # the kind of a number that was used up without an operation
log = logging.getLogger(__name__)


@dataclass
class ModelQueue:
    """``next_seq`` is the number of the operation that is done next.

    ``is_lost``: its client goes on from numbers that went with the volume, and none is waited for.
    """

    next_seq: int = CREATE
    last_seq: int = CREATE
    is_lost: bool = False
    arrival: int = 0  # of its next operation, among those of all models
    arrival_before: int = 0  # that of the last one that was begun
    unfinished: set[int] = field(default_factory=set)  # begun, and without a result yet
    waiting: dict[int, Operation] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)  # of those that are short, in bytes
    stalled_since: float | None = None  # the next number is missing, while later ones are there

    @property
    def is_ready(self) -> bool:
        """Whether the next operation is there."""
        return self.next_seq in self.waiting

    @property
    def short_bytes(self) -> int:
        """The size of the next operation where it can be joined with others, else 0."""
        return self.sizes.get(self.next_seq, 0)

    def near_check(self, model_id: str, seq_id: int) -> None:
        """Raises BadRequest where more numbers would be missing before this one than may be."""
        if not self.is_lost and seq_id > self.last_seq + MAX_GAP:
            raise BadRequest(
                f"number {seq_id} of {model_id} is more than {MAX_GAP} after the last, "
                f"{self.last_seq}"
            )

    def add(self, operation: Operation, arrival: int) -> bool:
        """Whether it is to be done: one that waits already, or that comes after its number was given
        up, is not.
        """
        self.last_seq = max(self.last_seq, operation.seq_id)
        if operation.seq_id in self.waiting:
            return False
        if operation.seq_id < self.next_seq and not self.is_lost:
            return False
        if not self.waiting:
            self.arrival = arrival
        # Its body is read from the journal at its turn: what a client sends ahead is not held in
        # memory.
        self.waiting[operation.seq_id] = replace(operation, body=b"", result=None)
        is_new = operation.kind == JOINABLE and not operation.is_done
        # what a restart restores comes without its body, and is done alone
        if is_new and 0 < len(operation.body) <= SHORT_BYTES:
            self.sizes[operation.seq_id] = len(operation.body)
        self._look()
        return True

    def begin(self, arrival: int) -> Operation:
        """Take the next operation out."""
        operation = self.waiting.pop(self.next_seq)
        self.sizes.pop(self.next_seq, None)
        self.next_seq += 1
        self.arrival_before, self.arrival = self.arrival, arrival
        self.unfinished.add(operation.seq_id)
        self._look()
        return operation

    def put_back(self, operation: Operation) -> None:
        """Let what was begun last wait again, to be done by itself: it has no size any more."""
        self.waiting[operation.seq_id] = operation
        self.next_seq, self.arrival = operation.seq_id, self.arrival_before
        self.unfinished.discard(operation.seq_id)
        self._look()

    def give_up(self, gap_s: float) -> range:
        """The numbers that were waited for as long as that: they are waited for no more."""
        if self.stalled_since is None or time.monotonic() - self.stalled_since < gap_s:
            return range(0)
        self.stalled_since = None
        return range(self.next_seq, min(self.waiting))

    def _look(self) -> None:
        if self.is_lost and self.waiting:
            self.next_seq = min(self.waiting)
        is_stalled = bool(self.waiting) and not self.is_ready
        self.stalled_since = (self.stalled_since or time.monotonic()) if is_stalled else None


Turn = tuple[ModelQueue, Operation]


class ModelQueues:
    """The queues of all models, whose turn it is, and what clients wait for."""

    def __init__(self, gap_s: float) -> None:
        self._gap_s = gap_s
        self._queues: dict[str, ModelQueue] = {}
        self._ends: dict[str, asyncio.Event] = {}  # of operations without a result, by their names
        self._arrivals, self._shares = 0, FairShares()
        self._changed = asyncio.Event()
        self._over: deque[str] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return not self._ends

    @property
    def clients(self) -> set[str]:
        """The Tinker sessions that have models here."""
        return {client_of(model_id) for model_id in self._queues}

    def open(self, model_id: str, queue: ModelQueue) -> None:
        """The queue of a model, unless it has one."""
        self._queues.setdefault(model_id, queue)

    def number_check(self, model_id: str, seq_id: int) -> None:
        """Raises NotFound for a model that was never made, BadRequest for a number far from any
        other.
        """
        queue = self._queues.get(model_id)
        if seq_id != CREATE and queue is None:
            raise NotFound(f"there is no model {model_id} in this session")
        if queue is not None:
            queue.near_check(model_id, seq_id)

    def add(self, operation: Operation) -> None:
        """Have an operation wait for its turn, unless it does or its number was given up."""
        self._arrivals += 1
        queue = self._queues.setdefault(operation.model_id, ModelQueue())
        if not queue.add(operation, self._arrivals):
            return
        if not operation.is_done:
            self._ends[operation.request_id] = asyncio.Event()
        self._changed.set()

    def take_next(self) -> list[Turn]:
        """Take out the operation whose turn it is: of the client that had the fewest tokens the one
        that has waited longest. With a short one come those of other models, in the order of their
        turns and of each client one before a second, as far as there is room.
        """
        ready = {
            (client_of(model_id), queue.arrival): queue
            for model_id, queue in self._queues.items()
            if queue.is_ready
        }
        turns: list[Turn] = []
        had, room = set[str](), JOINED_BYTES
        while ready:
            others = {turn: queue for turn, queue in ready.items() if turn[0] not in had}
            first = self._shares.first(others or ready)
            assert first is not None, "somebody waits"
            if not turns:
                self._shares.begin(first[0])
            queue = ready.pop(first)
            had.add(first[0])
            short, room = queue.short_bytes, room - queue.short_bytes
            self._arrivals += 1
            turns.append((queue, queue.begin(self._arrivals)))
            ready = {
                turn: each for turn, each in ready.items() if short and 0 < each.short_bytes <= room
            }
        return turns

    def put_back(self, turns: Sequence[Turn]) -> None:
        """Let operations that could not be joined wait for turns of their own."""
        for queue, operation in turns:
            queue.put_back(operation)

    def charge(self, model_id: str, tokens: int) -> None:
        """So many were computed for the model's client; 0: something that has none."""
        self._shares.charge(client_of(model_id), tokens)

    async def change(self) -> bool:
        """Return once something came; False once a number was waited for as long as it may be."""
        try:
            async with asyncio.timeout(self._next_gap_s()):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    def give_up(self) -> Iterator[list[Operation]]:
        """Of each model the numbers that were waited for long enough, as operations that use them
        up.
        """
        for model_id, queue in list(self._queues.items()):
            if not (gap := queue.give_up(self._gap_s)):
                continue
            log.warning(
                "numbers %d to %d of %s never came: they count as used up",
                gap[0],
                gap[-1],
                model_id,
            )
            yield [self._missing(model_id, seq_id) for seq_id in gap]

    def position(self, operation: Operation) -> str:
        """Why an operation is not done yet, in words for its client."""
        queue = self._queues.get(operation.model_id)
        if queue is None or operation.seq_id < queue.next_seq:
            return "it is being done"
        if not queue.is_ready:
            return f"number {queue.next_seq} of this model has not come yet"
        waiting = sum(len(each.waiting) for each in self._queues.values())
        return f"{waiting} operations wait in this session"

    async def wait(self, request_id: str, timeout_s: float) -> None:
        """Return as soon as the operation has ended, or at the end of ``timeout_s``."""
        if (event := self._ends.get(request_id)) is not None:
            try:
                async with asyncio.timeout(timeout_s):
                    await event.wait()
            except TimeoutError:
                pass

    def end(self, request_id: str) -> None:
        """Those who wait for this operation wait no more."""
        if event := self._ends.pop(request_id, None):
            event.set()

    def client_over(self, client: str) -> None:
        """A client is finished: its models go before anything else is done."""
        self._over.append(client)
        self._changed.set()

    def take_finished(self) -> tuple[str, list[str]] | None:
        """Take out a client that is finished, and the names of its models."""
        if not self._over:
            return None
        client = self._over.popleft()
        return client, [model_id for model_id in self._queues if client_of(model_id) == client]

    def remove(self, model_id: str) -> list[Operation]:
        """Remove a model's queue; what waited in it."""
        return list(self._queues.pop(model_id).waiting.values())

    def settled(self) -> Iterator[tuple[str, int]]:
        """Each model of which nothing is under way, and the number of its last operation that is
        done.
        """
        for model_id, queue in list(self._queues.items()):
            if queue.next_seq > CREATE and not queue.unfinished:
                yield model_id, queue.next_seq - 1

    def _next_gap_s(self) -> float | None:
        stalls = [queue.stalled_since for queue in self._queues.values()]
        since = [stalled for stalled in stalls if stalled is not None]
        return max(0.0, min(since) + self._gap_s - time.monotonic()) if since else None

    def _missing(self, model_id: str, seq_id: int) -> Operation:
        said = (
            f"number {seq_id} of {model_id} did not come within {self._gap_s:g} s: it counts as "
            "used up"
        ).encode()
        request_id = f"{model_id}|{MISSING}:{seq_id}"
        return Operation(
            model_id, seq_id, request_id, MISSING, said, hashlib.sha256(said).hexdigest()
        )
