"""Sampling for Tinker clients: promises held in memory, because a client sends a lost sample again
by itself.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpu_runtime.errors import (
    CheckpointDeleted,
    EngineDead,
    RequestRefused,
    RuntimeFault,
    StoreUnavailable,
)
from gpu_runtime.events import Events
from gpu_runtime.gateway.tinker.checkpoints.snapshots import snapshot_held
from gpu_runtime.gateway.tinker.data import UserMistake
from gpu_runtime.gateway.tinker.fair_shares import FairRoom
from gpu_runtime.gateway.tinker.requests import Sample, SamplingTarget
from gpu_runtime.gateway.tinker.results import Future, Result
from gpu_runtime.gateway.tinker.samples.orders import order_of
from gpu_runtime.gateway.tinker.samples.responses import response_write
from gpu_runtime.interfaces import SampleOrder, SampleOutcome, SamplerEngine
from tinkerscript.wire.tinker.ids import PromiseId, client_of

RESULTS_KEPT, RESULT_BYTES_KEPT = 20_000, 256 << 20
MAX_PROMISES = 20_000  # under way at once
CLONE_NUMBERS = 10**9  # a copy of a sampling client begins to count at its own number times this
# sequences in the engine at once, as many as it takes: of more the client is next that had the
# fewest tokens
SEQUENCES_AT_ONCE = 256
STALL_S = 900.0  # an engine that finishes no sample for so long is dead
log = logging.getLogger(__name__)


class Busy(Exception):
    """There are as many samples under way as are held: the client waits and sends it again."""


class Gone(Exception):
    """The samples that a client waits for were another runtime's."""


@dataclass(frozen=True)
class Sampled:
    """What a sampling session samples: the weights of a folder, None for the base model's.

    ``exact_seeds``: its client asked for seeds as they are.
    """

    folder: Path | None
    exact_seeds: bool = False


@dataclass(frozen=True)
class SampleDone:
    """A sample was made for a sampling session."""

    sampler_id: str
    order: SampleOrder
    outcome: SampleOutcome
    seconds: float


@dataclass
class Promise:
    """One sample request. ``result`` is there once ``done`` is set."""

    request_id: str
    sha256: str
    num_samples: int
    done: asyncio.Event = field(default_factory=asyncio.Event)
    result: Result | None = None
    cursor: int = 0  # its place among the finished ones
    task: asyncio.Task[None] | None = None

    @property
    def sequence_ids(self) -> list[str]:
        """The names of the samples."""
        return [f"{self.request_id}#{index}" for index in range(self.num_samples)]


class Samples:
    """The samples of one session. ``sampler_find`` tells what a sampling session samples.

    Its folder is an adapter's, or for all weights a Hugging Face folder. It raises UserMistake for
    a session that is not known. ``on_fault`` hears of an engine that is lost.
    """

    def __init__(
        self,
        engine: SamplerEngine,
        sampler_find: Callable[[str], Awaitable[Sampled]],
        *,
        session_id: str,
        events: Events,
        on_fault: Callable[[RuntimeFault], None],
    ) -> None:
        self._engine, self._sampler_find = engine, sampler_find
        self._session_id, self._events, self._on_fault = session_id, events, on_fault
        # promises of an earlier runtime are not those of this one
        self._boot = secrets.token_hex(4)
        # beyond those of an earlier runtime
        self._first_cursor = self._last_cursor = time.time_ns() // 1000
        self._changed = asyncio.Event()  # replaced each time that it is set
        self._by_number: dict[tuple[str, int], Promise] = {}
        self._by_id: dict[str, Promise] = {}
        self._finished: OrderedDict[str, tuple[tuple[str, int], int]] = OrderedDict()
        self._finished_bytes = 0
        self._made, self._room = 0, FairRoom(SEQUENCES_AT_ONCE)
        self._finished_at = time.monotonic()
        self.last_activity_at = time.time()

    @property
    def is_idle(self) -> bool:
        """Whether no sample is under way."""
        return len(self._by_id) == len(self._finished)

    def submit(self, sample: Sample, sha256: str) -> Promise:
        """Begin it, or return the promise of its number. Raises UserMistake for another body,
        Busy.
        """
        self.last_activity_at = time.time()
        number = (sample.sampling_session_id, sample.seq_id)
        if (known := self._by_number.get(number)) is not None:
            if known.sha256 != sha256:
                raise UserMistake(
                    f"number {sample.seq_id} of {sample.sampling_session_id} was used for another "
                    "request"
                )
            return known
        if len(self._by_id) - len(self._finished) >= MAX_PROMISES:
            raise Busy
        self._made += 1
        request_id = str(PromiseId(self._session_id, "sample", self._boot, self._made))
        promise = self._by_number[number] = self._by_id[request_id] = Promise(
            request_id, sha256, sample.num_samples
        )
        promise.task = asyncio.create_task(self._run(promise, number, sample))
        return promise

    def refuse(self, why: str, sha256: str) -> Promise:
        """A promise that is broken already: ``why`` comes back through it."""
        self._made += 1
        promise = Promise(
            str(PromiseId(self._session_id, "sample", self._boot, self._made)), sha256, 1
        )
        promise.result = Result.mistake(why)
        self._by_id[promise.request_id] = promise
        self._keep(promise, ("", self._made))
        promise.done.set()
        return promise

    async def finished(
        self, client: SamplingTarget, cursor: int, timeout_s: float
    ) -> tuple[list[Promise], int]:
        """The promises of one copy of a sampling client that were finished after ``cursor``, and
        the cursor after them: as soon as there are any, or none at the end of ``timeout_s``. Raises
        Gone where they were another runtime's.
        """
        numbers = range(
            CLONE_NUMBERS * client.cloned_sampler_id, CLONE_NUMBERS * (client.cloned_sampler_id + 1)
        )
        of_client = [
            name for name in self._by_number if _is_of(name, client.sampling_session_id, numbers)
        ]
        if not of_client or 0 < cursor < self._first_cursor:
            raise Gone
        deadline = time.monotonic() + timeout_s
        while True:
            changed, found = self._changed, list[Promise]()
            for request_id, (number, _) in reversed(self._finished.items()):
                promise = self._by_id[request_id]
                if promise.cursor <= cursor:
                    break
                if _is_of(number, client.sampling_session_id, numbers):
                    found.append(promise)
            if found or (remaining_s := deadline - time.monotonic()) <= 0:
                return found[::-1], self._last_cursor
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(remaining_s):
                    await changed.wait()

    async def wait(self, request_id: str, timeout_s: float) -> Future | None:
        """As soon as the sample is made, or at the end of ``timeout_s``."""
        promise = self._by_id.get(request_id)
        if promise is None:
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await promise.done.wait()
        waiting = self._engine.waiting
        if not waiting and self._room.waiting:
            waiting = f"{self._room.waiting} samples wait for room in the engine"
        return Future(promise.result, waiting or "the sample is being made")

    def cancel(self, request_id: str) -> None:
        """Nobody waits for it any more."""
        promise = self._by_id.get(request_id)
        if promise is not None and promise.task is not None and not promise.done.is_set():
            promise.task.cancel()

    async def close(self) -> None:
        """End what is under way."""
        tasks = [promise.task for promise in self._by_id.values() if promise.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, promise: Promise, number: tuple[str, int], sample: Sample) -> None:
        try:
            sampled = await self._sampler_find(sample.sampling_session_id)
            folder = sampled.folder
            order = order_of(sample, folder, self._engine, exact_seeds=sampled.exact_seeds)
            client = client_of(sample.sampling_session_id)
            async with self._room.of(client, order.num_samples):
                began = time.monotonic()
                with snapshot_held(folder):
                    outcome = await self._sampled(order)
            seconds = time.monotonic() - began
            self._room.charge(client, _tokens(order, outcome))
            self._events.publish(SampleDone(sample.sampling_session_id, order, outcome, seconds))
            promise.result = Result("proto", response_write(sample, order, outcome))
        except asyncio.CancelledError:
            promise.result = Result.mistake("the sample was cancelled by its client")
        except UserMistake as mistake:
            promise.result = Result.mistake(str(mistake))
        except CheckpointDeleted as deleted:
            promise.result = Result.mistake(str(deleted))
        except StoreUnavailable as away:
            promise.result = Result.mistake(
                f"the object store is away, try again later: {away}", "server"
            )
        except RequestRefused as refused:
            promise.result = Result.mistake(f"the engine refuses this request: {refused}")
        except EngineDead as dead:
            promise.result = Result.mistake(f"the engine was lost: {dead}", "server")
            self._on_fault(dead)
        except Exception as error:  # the top of a sample: its client is told, others go on
            log.exception("A sample failed.")
            promise.result = Result.mistake(
                f"the sample failed inside the service: {error}", "server"
            )
        self._keep(promise, number)
        promise.done.set()

    async def _sampled(self, order: SampleOrder) -> SampleOutcome:
        """What the engine makes of it. Raises EngineDead when it has finished nothing at all for
        STALL_S.
        """
        began = time.monotonic()
        work = asyncio.ensure_future(self._engine.sample(order))
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=STALL_S / 10)
                if not work.done() and time.monotonic() - max(began, self._finished_at) > STALL_S:
                    raise EngineDead(f"the engine finished nothing for {STALL_S:.0f} s")
        finally:
            work.cancel()  # does nothing to one that is done
        self._finished_at = time.monotonic()
        return work.result()

    def _keep(self, promise: Promise, number: tuple[str, int]) -> None:
        size = len(promise.result.body) if promise.result else 0
        self._finished[promise.request_id] = (number, size)
        self._finished_bytes += size
        self._last_cursor += 1
        promise.cursor = self._last_cursor
        self._changed.set()
        self._changed = asyncio.Event()
        while len(self._finished) > RESULTS_KEPT or self._finished_bytes > RESULT_BYTES_KEPT:
            request_id, (old, old_size) = self._finished.popitem(last=False)
            self._finished_bytes -= old_size
            self._by_id.pop(request_id, None)
            self._by_number.pop(old, None)


def _tokens(order: SampleOrder, outcome: SampleOutcome) -> int:
    return len(order.prompt_ids) + sum(len(answer.token_ids_T) for answer in outcome.answers)


def _is_of(number: tuple[str, int], sampling_session_id: str, numbers: range) -> bool:
    """Whether a promise may be of this client: of one that was refused, the number is not known."""
    return not number[0] or (number[0] == sampling_session_id and number[1] in numbers)
