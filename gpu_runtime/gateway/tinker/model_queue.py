"""The operations that were sent for one model, in the order of their numbers.

Chunks of one call arrive in any order, and a number that never comes must not stall those after it.
"""

import time
from dataclasses import dataclass, field, replace

from gpu_runtime.journal.model_table import CREATE, Operation
from gpu_runtime.refusals import BadRequest

# a client tries for 300 s, and 30 s more for its last try, to send a number before it gives it up
GAP_S = 330.0
# numbers that may be missing before one that comes: each is written down when it is given up
MAX_GAP = 4096


@dataclass
class ModelQueue:
    """``next_seq`` is the number of the operation that is done next.

    ``is_lost``: its client goes on from numbers that went with the volume, and none is waited for.
    """

    next_seq: int = CREATE
    last_seq: int = CREATE
    is_lost: bool = False
    arrival: int = 0  # of its next operation, among those of all models
    unfinished: set[int] = field(default_factory=set)  # begun, and without a result yet
    waiting: dict[int, Operation] = field(default_factory=dict)
    stalled_since: float | None = None  # the next number is missing, while later ones are there

    @property
    def is_ready(self) -> bool:
        """Whether the next operation is there."""
        return self.next_seq in self.waiting

    def near_check(self, model_id: str, seq_id: int) -> None:
        """Raises BadRequest where more numbers would be missing before this one than may be."""
        if not self.is_lost and seq_id > self.last_seq + MAX_GAP:
            raise BadRequest(
                f"number {seq_id} of {model_id} is more than {MAX_GAP} after the last, "
                f"{self.last_seq}"
            )

    def add(self, operation: Operation, arrival: int) -> bool:
        """Whether it is to be done: one that comes after its number was given up is not."""
        self.last_seq = max(self.last_seq, operation.seq_id)
        if operation.seq_id < self.next_seq and not self.is_lost:
            return False
        if not self.waiting:
            self.arrival = arrival
        # Its body is read from the journal at its turn: what a client sends ahead is not held in
        # memory.
        self.waiting[operation.seq_id] = replace(operation, body=b"", result=None)
        self._look()
        return True

    def begin(self, arrival: int) -> Operation:
        """Take the next operation out."""
        operation = self.waiting.pop(self.next_seq)
        self.next_seq += 1
        self.arrival = arrival
        self.unfinished.add(operation.seq_id)
        self._look()
        return operation

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
