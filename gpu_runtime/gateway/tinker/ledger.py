"""Operations of models: each taken once under its number, done in the order of the numbers, its
result kept.

Of clients that share the runtime the one that had the fewest tokens is next (fair_shares.py). A
number that never comes counts as used up after GAP_S (model_queue.py). What a killed
runtime had not finished is done by the next one, after what the saved state lacks was done again.
"""

import asyncio
import hashlib
import logging
import time
from collections import deque
from collections.abc import Awaitable
from dataclasses import dataclass

from gpu_runtime.errors import (
    CheckpointDeleted,
    InputUnusable,
    RuntimeFault,
    StoreFull,
    StoreUnavailable,
    UploadRefused,
)
from gpu_runtime.events import Events
from gpu_runtime.gateway.tinker.data import UserMistake
from gpu_runtime.gateway.tinker.fair_shares import FairShares
from gpu_runtime.gateway.tinker.model_queue import GAP_S, ModelQueue
from gpu_runtime.gateway.tinker.results import Future, Result
from gpu_runtime.gateway.tinker.work import ModelWork
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.model_table import CREATE, Operation
from gpu_runtime.model_interfaces import InvalidTrainingInput
from gpu_runtime.refusals import BadRequest, NotFound
from tinkerscript.wire.tinker.ids import PromiseId, client_of
from tinkerscript.wire.tinker.messages import ModelCreate

# how long, and how often, a store is asked for what has to be done again
STORE_S, STORE_INTERVAL_S = 600.0, 5.0
MISSING = "missing"  # the kind of a number that was used up without an operation
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OperationDone:
    """An operation of a model has its result. ``again``: it had one before, from a runtime that was
    killed.
    """

    operation: Operation
    result: Result
    seconds: float
    again: bool


class Ledger:
    """The operations of one session. ``run`` does them until it is cancelled."""

    def __init__(
        self,
        journal: Journal,
        work: ModelWork,
        events: Events,
        *,
        gap_s: float = GAP_S,
    ) -> None:
        self._journal, self._table = journal, journal.models
        self._work, self._events, self._gap_s = work, events, gap_s
        self._models: dict[str, ModelQueue] = {}
        self._done: dict[str, asyncio.Event] = {}
        self._changed = asyncio.Event()
        self._tail: set[asyncio.Task[None]] = set()
        self._arrivals, self._shares = 0, FairShares()
        self._over: deque[str] = deque()  # clients whose models go
        # what every operation waits for, in words; empty while nothing holds them up
        self._held_by = ""
        self.last_activity_at = time.time()
        self.steps_done = 0  # optimizer steps of all models, those of earlier runtimes included

    async def restore(self) -> None:
        """Take up what the journal holds; what has to be done again is done by ``run``."""
        await self._work.begin()
        self.steps_done = await self._journal.run(self._table.steps_done)
        for row in await self._journal.run(self._table.models):
            model = ModelQueue(next_seq=row.state_seq + 1, last_seq=row.state_seq)
            self._models[row.id] = model
            if row.state_seq >= CREATE:
                creation = await self._journal.run(self._table.creation, row.id)
                assert creation is not None, "a model is made by its first operation"
                await self._work.resume(row.id, row.state_seq, creation)
            elif (creation := await self._journal.run(self._table.creation, row.id)) is not None:
                model.is_lost = ModelCreate.model_validate_json(creation.body).made_before
            for operation in await self._journal.run(self._table.after, row.id, row.state_seq):
                self._add(model, operation)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return not self._done

    async def submit(
        self,
        model_id: str,
        seq_id: int,
        kind: str,
        body: bytes,
        *,
        session_id: str,
        compared: bytes | None = None,
    ) -> Operation:
        """Take an operation, or return the one of this number. ``compared``: what of the body makes
        it another one.

        Raises BadRequest for another body under a number that is taken and for a number far from
        any other, NotFound for a model that was never made.
        """
        self.last_activity_at = time.time()
        model = self._models.get(model_id)
        if seq_id != CREATE and model is None:
            raise NotFound(f"there is no model {model_id} in this session")
        if model is not None:
            model.near_check(model_id, seq_id)
        digest = hashlib.sha256(
            kind.encode() + b"\0" + (body if compared is None else compared)
        ).hexdigest()
        promise = PromiseId(session_id, "train", model_id, seq_id)
        wanted = Operation(model_id, seq_id, str(promise), kind, body, digest)
        taken = await self._journal.run(self._table.take, wanted)
        if taken.sha256 != digest:
            raise BadRequest(
                f"number {seq_id} of {model_id} was used for another operation ({taken.kind})"
            )
        if taken is wanted:
            self._add(self._models.setdefault(model_id, ModelQueue()), taken)
        return taken

    async def submit_create(self, model_id: str, body: bytes, *, session_id: str) -> Operation:
        """A model's first operation; told again, in whatever words, it is the one that was
        taken.
        """
        known = await self._journal.run(self._table.creation, model_id)
        if known is not None:
            return known
        # and the journal of this volume has no such model
        is_lost = ModelCreate.model_validate_json(body).made_before
        self._models.setdefault(model_id, ModelQueue(is_lost=is_lost))
        return await self.submit(model_id, CREATE, "create_model", body, session_id=session_id)

    @property
    def clients(self) -> set[str]:
        """The Tinker sessions that have models here."""
        return {client_of(name) for name in self._models}

    def client_over(self, client: str) -> None:
        """A client is finished: its models, and what waits of them, go before anything else is
        done.
        """
        self._over.append(client)
        self._changed.set()

    async def wait(self, request_id: str, timeout_s: float) -> Future | None:
        """As soon as the operation is done, or at the end of ``timeout_s``."""
        if (event := self._done.get(request_id)) is not None:
            try:
                async with asyncio.timeout(timeout_s):
                    await event.wait()
            except TimeoutError:
                pass
        return Future.of(await self._journal.run(self._table.find, request_id), self.position)

    def position(self, operation: Operation) -> str:
        """Why an operation is not done yet, in words for its client."""
        if self._held_by:
            return self._held_by
        model = self._models.get(operation.model_id)
        if model is None or operation.seq_id < model.next_seq:
            return "it is being done"
        if not model.is_ready:
            return f"number {model.next_seq} of this model has not come yet"
        waiting = sum(len(each.waiting) for each in self._models.values())
        return f"{waiting} operations wait in this session"

    async def run(self) -> None:
        """Do what can be done, one operation at a time. Raises what loses the trainer."""
        try:
            while True:
                self._changed.clear()
                while self._over:
                    await self._client_forget(self._over.popleft())
                model_id = self._next()
                if model_id is not None:
                    await self._do(self._models[model_id])
                    continue
                try:
                    async with asyncio.timeout(self._next_gap_s()):
                        await self._changed.wait()
                except TimeoutError:
                    await self._give_up_gaps()
        finally:
            for task in self._tail:
                task.cancel()
            await asyncio.gather(*self._tail, return_exceptions=True)

    async def save_all(self) -> None:
        """Save the state of every model, so that a later runtime has nothing to do again. Call it
        after ``run``.
        """
        for name, model in self._models.items():
            done = model.next_seq - 1
            if done >= CREATE and not model.unfinished and await self._work.save(name, done):
                await self._saved(name, done)

    def _add(self, model: ModelQueue, operation: Operation) -> None:
        self._arrivals += 1
        if not model.add(operation, self._arrivals):
            return  # the journal had it as missing before
        if not operation.is_done:
            self._done[operation.request_id] = asyncio.Event()
        self._changed.set()

    def _next(self) -> str | None:
        """The model whose next operation is there, of the client that had the fewest tokens the one
        that has waited longest.
        """
        ready = {
            (client_of(name), model.arrival): name
            for name, model in self._models.items()
            if model.is_ready
        }
        first = self._shares.first(ready)
        return ready[first] if first is not None else None

    async def _client_forget(self, client: str) -> None:
        gone = [name for name in self._models if client_of(name) == client]
        for name in gone:
            model = self._models.pop(name)
            await self._work.forget(name)
            for operation in model.waiting.values():
                if event := self._done.pop(operation.request_id, None):
                    event.set()
        await self._journal.run(self._table.client_forget, client)

    async def _do(self, model: ModelQueue) -> None:
        self._arrivals += 1
        waiting = model.begin(self._arrivals)
        operation = await self._journal.run(self._table.find, waiting.request_id)
        assert operation is not None, "what was taken is in the journal"
        began = time.monotonic()
        result = await self._result(operation)
        tokens = result.tokens if isinstance(result, Result) else 0
        self._shares.charge(client_of(operation.model_id), tokens)
        if isinstance(result, Result):
            await self._finish(model, operation, result, began)
        else:
            task = asyncio.create_task(self._finish_later(model, operation, result, began))
            self._tail.add(task)
            task.add_done_callback(self._tail.discard)
        if not model.unfinished and not operation.is_done:
            seq_id = operation.seq_id
            if await self._work.save_when_due(
                operation.model_id, seq_id, size_bytes=len(operation.body)
            ):
                await self._saved(operation.model_id, seq_id)

    async def _saved(self, model_id: str, seq_id: int) -> None:
        # In this order: a kill in between leaves the state that the journal names.
        await self._journal.run(self._table.saved, model_id, seq_id)
        await self._work.keep_only(model_id, seq_id)

    async def _result(self, operation: Operation) -> Result | Awaitable[Result]:
        if operation.kind == MISSING:
            return Result.mistake(operation.body.decode())
        if operation.result_kind == "error" and operation.kind != "create_model":
            # it changed nothing when it was done: done again it might, its client gone on
            return Result.mistake("")
        try:
            return await self._work.do(operation, again=operation.is_done)
        except StoreUnavailable as away:
            if operation.result_kind not in (None, "error"):
                return await self._again(operation, away)
            return failure(operation, away)
        except Exception as error:  # the top of an operation: its client is told, later ones go on
            if isinstance(error, RuntimeFault) and not isinstance(error, InputUnusable):
                raise  # a process is lost: the next runtime goes on from here
            return failure(operation, error)

    async def _again(
        self, operation: Operation, away: StoreUnavailable
    ) -> Result | Awaitable[Result]:
        """What was done before, and has to be: a model without it would not be what its client
        trained.
        """
        deadline = time.monotonic() + STORE_S
        while time.monotonic() < deadline and not isinstance(away, CheckpointDeleted):
            self._held_by = (
                f"the object store is away, and {operation.kind} of "
                f"{operation.model_id} needs it: {away}"
            )
            log.warning("%s", self._held_by)
            await asyncio.sleep(STORE_INTERVAL_S)
            try:
                result = await self._work.do(operation, again=True)
            except StoreUnavailable as error:
                away = error
            else:
                self._held_by = ""
                return result
        raise away

    async def _finish_later(
        self, model: ModelQueue, operation: Operation, rest: Awaitable[Result], began: float
    ) -> None:
        try:
            result = await rest
        except Exception as error:  # noqa: BLE001 - the top of this work: the session goes on
            result = failure(operation, error)
        await self._finish(model, operation, result, began)

    async def _finish(
        self, model: ModelQueue, operation: Operation, result: Result, began: float
    ) -> None:
        if not operation.is_done:
            await self._journal.run(self._table.finish, operation, result.kind, result.body)
            self.steps_done += operation.kind == "optim_step" and result.kind == "json"
        self._events.publish(
            OperationDone(operation, result, time.monotonic() - began, again=operation.is_done)
        )
        model.unfinished.discard(operation.seq_id)
        if event := self._done.pop(operation.request_id, None):
            event.set()

    def _next_gap_s(self) -> float | None:
        stalls = [model.stalled_since for model in self._models.values()]
        since = [stalled for stalled in stalls if stalled is not None]
        return max(0.0, min(since) + self._gap_s - time.monotonic()) if since else None

    async def _give_up_gaps(self) -> None:
        for name, model in list(self._models.items()):
            if not (gap := model.give_up(self._gap_s)):
                continue
            log.warning(
                "numbers %d to %d of %s never came: they count as used up", gap[0], gap[-1], name
            )
            gone = [self._missing(name, seq_id) for seq_id in gap]
            for operation in await self._journal.run(self._table.take_all, gone):
                if operation.seq_id not in model.waiting:  # it came at this moment
                    self._add(model, operation)

    def _missing(self, model_id: str, seq_id: int) -> Operation:
        said = (
            f"number {seq_id} of {model_id} did not come within {self._gap_s:g} s: it counts as "
            "used up"
        ).encode()
        request_id = f"{model_id}|{MISSING}:{seq_id}"
        return Operation(
            model_id, seq_id, request_id, MISSING, said, hashlib.sha256(said).hexdigest()
        )


def failure(operation: Operation, error: Exception) -> Result:
    """What its client gets of an operation that ended with ``error``."""
    if isinstance(error, UserMistake | InvalidTrainingInput | InputUnusable):
        return Result.mistake(str(error))
    if isinstance(error, CheckpointDeleted):
        return Result.mistake(f"{operation.kind}: {error}")
    if isinstance(error, UploadRefused | StoreFull):
        return Result.mistake(f"{operation.kind}: {error}", "server")
    if isinstance(error, StoreUnavailable):
        away = f"the object store is away, try again later: {error}"
        return Result.mistake(f"{operation.kind}: {away}", "server")
    log.exception("%s of %s failed", operation.kind, operation.model_id, exc_info=error)
    return Result.mistake(f"{operation.kind} failed inside the service: {error}", "server")
