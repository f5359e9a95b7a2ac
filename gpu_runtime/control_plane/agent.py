"""The runtime's client of the control plane: register, heartbeat, report, fail, and requests made
under the lease.

All of it runs in one thread with an event loop of its own. The runtime's main loop serves the
gateway and waits on the engine and the trainer; when that loop is busy, a heartbeat on it would be
late and a healthy session would be taken for a dead one. Torch releases the interpreter lock while
it computes, so this thread keeps its time.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel

from gpu_runtime.config import RuntimeConfig
from gpu_runtime.errors import ControlPlaneLost, ControlPlaneRefused, RuntimeFault, StoreFull
from gpu_runtime.events import Events
from gpu_runtime.health.status import Status
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.runtime import (
    Assignment,
    CheckpointOrder,
    FailureReport,
    Orders,
    ReportEntry,
    RuntimeStage,
    StopReason,
)

from .beat_pause import BeatPause
from .lease_client import ControlPlaneAway, LeaseClient

log = logging.getLogger(__name__)
ResponseT = TypeVar("ResponseT", bound=BaseModel)
ResultT = TypeVar("ResultT")

HEARTBEAT_S, HEARTBEAT_TIMEOUT_S = 1.0, 5.0  # the first: the least
PATIENCE_S = 600.0  # how long a server may be away: the agreed time in which it is restarted
BATCH_S = 0.05  # entries reported within this time travel together
BATCH_ENTRIES, BATCH_BYTES = 500, 1 << 20
FAREWELL_S = 10.0  # for what is still queued when the agent closes
FULL_SAID_S = 600  # how often a full disk of the store is put on the record while it lasts


@dataclass(frozen=True)
class Recorded:
    """An event was put on the session's record; published in the thread that reported it."""

    data: dict[str, Any]


class Agent:
    """``async with Agent(config) as agent: assignment = await agent.register()``.

    ``stop_requested`` is set, and ``stop_reason`` gives the reason, once the control plane wants
    the runtime to end; ``preempted`` is set beside them where this machine is about to be taken
    away. ``checkpoint_orders`` yields each wanted checkpoint; close it with ``order_done`` or
    ``order_failed``. ``lost`` is set for good when the runtime must end: LeaseLost means at once
    and without another write. ``events`` is the bus of this runtime.
    """

    def __init__(self, config: RuntimeConfig, *, patience_s: float = PATIENCE_S) -> None:
        self.status, self.events = Status(self._beat_soon), Events()
        self.stop_requested = asyncio.Event()
        self.stop_reason: StopReason | None = None
        self.preempted = asyncio.Event()
        # the session fails if this runtime ends by a fault, as of the last heartbeat
        self.is_final_attempt = False
        self.checkpoint_orders: asyncio.Queue[CheckpointOrder] = asyncio.Queue()
        self.lost: RuntimeFault | None = None
        self._lost_event = asyncio.Event()
        self._orders_known: set[str] = set()
        self._config = config
        self._patience_s = patience_s
        # entries as JSON: what was reported cannot change while it waits
        self._queue: deque[str] = deque()
        # belongs to the agent's own loop, like the client and the tasks
        self._queued = asyncio.Event()
        self._pause = BeatPause(HEARTBEAT_S)  # of that loop too
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Agent":
        self._main = asyncio.get_running_loop()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="agent", daemon=True)
        self._thread.start()
        self._client = LeaseClient(self._config, self.give_up, self._say_full)
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            if self._tasks:
                await self.flush(FAREWELL_S)
            await self._in_thread(self._end())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            await asyncio.to_thread(self._thread.join)
            self._loop.close()

    async def register(self) -> Assignment:
        """Claim the session and begin the heartbeats; again, it only renews the presigned URLs of
        the assignment.

        Raises LeaseLost, ControlPlaneLost, ControlPlaneRefused, ServerDiffers.
        """
        assignment = await self.call(
            "/v1/runtime/register", None, Assignment, deadline_s=self._patience_s
        )
        await self._in_thread(self._begin())
        return assignment

    async def call(
        self,
        path: str,
        body: BaseModel | None,
        response_type: type[ResponseT],
        *,
        deadline_s: float,
    ) -> ResponseT:
        """POST under the lease, again and again until there is a response or ``deadline_s`` has
        passed.

        Raises LeaseLost; ControlPlaneRefused for a request that no repetition will make right;
        after the deadline StoreUnavailable if that was the control plane's last error, else
        ControlPlaneLost.
        """
        return await self._in_thread(
            self._client.retry(path, _json(body), response_type, deadline_s)
        )

    async def send(self, path: str, body: BaseModel, *, deadline_s: float) -> None:
        """As ``call``, for a request whose response has no body."""
        await self._in_thread(self._client.retry(path, _json(body), None, deadline_s))

    def report(self, kind: EventKind, data: dict[str, Any], key: str) -> None:
        """Queue one entry for the session's record, from any thread. The same ``key`` twice is one
        entry.

        Returns at once; entries arrive in order, within about 0.2 s, or when the control plane is
        back. Raises ValueError (pydantic's ValidationError is one) for an entry that cannot be
        sent.
        """
        entry = ReportEntry(key=key, kind=kind, data=data).model_dump_json()
        if len(entry) > BATCH_BYTES:
            raise ValueError(
                f"the entry {key!r} has {len(entry)} bytes; {BATCH_BYTES} is the most that is taken"
            )
        if self.lost is None and not self._loop.is_closed():
            self._queue.append(entry)
            self._loop.call_soon_threadsafe(self._queued.set)
            if kind is EventKind.EVENT:
                self.events.publish(Recorded(data))

    async def flush(self, timeout_s: float) -> bool:
        """Wait until every queued entry was taken; False if ``timeout_s`` passed or the agent was
        lost first.
        """
        deadline = time.monotonic() + timeout_s
        while self._queue and self.lost is None and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        return not self._queue

    def drain(self, timeout_s: float) -> bool:
        """As ``flush``, for a thread that is not the main loop's."""
        deadline = time.monotonic() + timeout_s
        while self._queue and self.lost is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return not self._queue

    async def fail(
        self, code: str, cause: str, hint: str = "", *, deadline_s: float = 60.0
    ) -> None:
        """Give the session up with a named cause, after what was reported before it. Raises as
        ``call`` does.
        """
        await self.flush(FAREWELL_S)
        await self._in_thread(self._last_beat())
        # the end of a traceback says most
        body = FailureReport(code=code, cause=cause[-4000:], hint=hint[:1000])
        await self._in_thread(self._client.retry("/v1/runtime/fail", _json(body), None, deadline_s))

    async def wait_lost(self) -> RuntimeFault:
        """Return the fault once the runtime must end."""
        await self._lost_event.wait()
        assert self.lost is not None
        return self.lost

    def preempt(self) -> None:
        """This machine is taken away soon: end as for a suspension, of which the control plane
        knows nothing.
        """
        if not self.stop_requested.is_set():
            self.stop_reason = StopReason.SUSPEND
            self.stop_requested.set()
        self.status.preempt()
        self.preempted.set()

    def order_done(self, checkpoint_id: str) -> None:
        """The ordered checkpoint is committed; heartbeats already under way may still name it."""
        self._orders_known.add(checkpoint_id)

    def order_failed(self, checkpoint_id: str) -> None:
        """The ordered checkpoint could not be made now; it is delivered again while it is
        wanted.
        """
        self._orders_known.discard(checkpoint_id)

    def _deliver(self, orders: Orders) -> None:
        self.is_final_attempt = orders.last_try
        if orders.stop is not None:
            self.stop_reason = orders.stop
            self.stop_requested.set()
        for order in orders.checkpoints:
            if order.checkpoint_id not in self._orders_known:
                self._orders_known.add(order.checkpoint_id)
                self.checkpoint_orders.put_nowait(order)

    def give_up(self, fault: RuntimeFault) -> None:
        """The runtime must end with ``fault``. From any thread; the first fault stands."""
        if self.lost is None:
            log.error("the runtime must end: %s: %s", fault.code, fault)
            self.lost = fault
            self._main.call_soon_threadsafe(self._lost_event.set)

    async def _in_thread(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _beat_soon(self, at_once: bool) -> None:
        if self._tasks and not self._loop.is_closed():  # the first heartbeat needs no news
            self._loop.call_soon_threadsafe(partial(self._pause.end, at_once=at_once))

    def _say_full(self, full: StoreFull) -> None:
        if self.status.state is RuntimeStage.STOPPING:  # all that is left to do is to wait for room
            self.status.advance()
        data = {"name": "store_full", "reason": str(full), "hint": full.hint}
        self.report(EventKind.EVENT, data, key=f"store_full {int(time.time() // FULL_SAID_S)}")

    # Everything below runs on the agent's own loop.

    async def _begin(self) -> None:
        if self._tasks:
            return
        for work in (self._heartbeat(), self._send_reports()):
            task = asyncio.create_task(work)
            task.add_done_callback(self._task_ended)
            self._tasks.append(task)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.give_up(
                error
                if isinstance(error, RuntimeFault)
                else RuntimeFault(f"the agent broke: {error!r}")
            )

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._tasks and self.lost is None:
            await self._last_beat()
        await self._client.close()

    async def _last_beat(self) -> None:
        """The ledger as it ends, of which the second since the last heartbeat knew nothing; and of
        a machine that is taken away why it ends, which would count as a failure.
        """
        with suppress(ControlPlaneAway, RuntimeFault):
            beat = _json(self.status.snapshot())
            await self._client.send("/v1/runtime/heartbeat", beat, Orders, HEARTBEAT_TIMEOUT_S)

    async def _heartbeat(self) -> None:
        answered_at = time.monotonic()
        while True:
            began_at = self._loop.time()
            try:
                beat = _json(self.status.snapshot())
                orders = await self._client.send(
                    "/v1/runtime/heartbeat", beat, Orders, HEARTBEAT_TIMEOUT_S
                )
                answered_at = time.monotonic()
                self._pause.told(orders)
                self._main.call_soon_threadsafe(self._deliver, orders)
            except ControlPlaneAway as away:
                log.warning("heartbeat: %s", away)
                if time.monotonic() - answered_at > self._patience_s:
                    raise ControlPlaneLost(
                        f"no response for {self._patience_s:g} s: {away}"
                    ) from away
            await self._pause.wait(began_at)

    async def _send_reports(self) -> None:
        while True:
            await self._queued.wait()
            await asyncio.sleep(BATCH_S)
            self._queued.clear()
            while self._queue:
                batch = self._next_batch()
                await self._send_batch(batch)
                for _ in batch:
                    self._queue.popleft()

    def _next_batch(self) -> list[str]:
        batch: list[str] = []
        size_bytes = 0
        for entry in list(self._queue)[:BATCH_ENTRIES]:
            size_bytes += len(entry)
            if batch and size_bytes > BATCH_BYTES:
                break
            batch.append(entry)
        return batch

    async def _send_batch(self, batch: list[str]) -> None:
        body = ('{"entries":[' + ",".join(batch) + "]}").encode()
        try:
            # Without end: it is the heartbeat that decides whether the control plane is lost.
            await self._client.retry("/v1/runtime/report", body, None, float("inf"))
        except ControlPlaneRefused as refused:
            # One entry that is refused must not hold up the others, nor vanish without a trace.
            if len(batch) > 1:
                for entry in batch:
                    await self._send_batch([entry])
            else:
                log.error("the control plane refused a report: %s: %s", refused, batch[0][:2000])


def _json(body: BaseModel | None) -> bytes:
    return b"{}" if body is None else body.model_dump_json().encode()
