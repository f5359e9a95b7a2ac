"""Operations of models: each taken once under its number, done in its turn, its result kept.

What waits is in model_queue.py, what one operation does and how it ends in operation_runner.py;
here is the order in which the journal hears of it. What a killed runtime had not finished is done
by the next one, after what the saved state lacks was done again.
"""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from gpu_runtime.events import Events
from gpu_runtime.gateway.tinker.model_queue import GAP_S, ModelQueue, ModelQueues, Turn
from gpu_runtime.gateway.tinker.operation_runner import OperationRunner
from gpu_runtime.gateway.tinker.results import Future, Result
from gpu_runtime.gateway.tinker.work import ModelWork
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.model_table import CREATE, Operation
from gpu_runtime.refusals import BadRequest
from tinkerscript.wire.tinker.ids import PromiseId
from tinkerscript.wire.tinker.messages import ModelCreate


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
        self, journal: Journal, work: ModelWork, events: Events, *, gap_s: float = GAP_S
    ) -> None:
        self._journal, self._table, self._events = journal, journal.models, events
        self._work, self._runner = work, OperationRunner(work)
        self._queues = ModelQueues(gap_s)
        self._tail: set[asyncio.Task[None]] = set()
        self.last_activity_at = time.time()
        self.steps_done = 0  # optimizer steps of all models, those of earlier runtimes included

    async def restore(self) -> None:
        """Take up what the journal holds; what has to be done again is done by ``run``."""
        await self._work.begin()
        self.steps_done = await self._journal.run(self._table.steps_done)
        for row in await self._journal.run(self._table.models):
            queue = ModelQueue(next_seq=row.state_seq + 1, last_seq=row.state_seq)
            creation = await self._journal.run(self._table.creation, row.id)
            if row.state_seq >= CREATE:
                assert creation is not None, "a model is made by its first operation"
                await self._work.resume(row.id, row.state_seq, creation)
            elif creation is not None:
                queue.is_lost = ModelCreate.model_validate_json(creation.body).made_before
            self._queues.open(row.id, queue)
            for operation in await self._journal.run(self._table.after, row.id, row.state_seq):
                self._queues.add(operation)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return self._queues.is_idle

    @property
    def clients(self) -> set[str]:
        """The Tinker sessions that have models here."""
        return self._queues.clients

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
        self._queues.number_check(model_id, seq_id)
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
            self._queues.add(taken)
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
        self._queues.open(model_id, ModelQueue(is_lost=is_lost))
        return await self.submit(model_id, CREATE, "create_model", body, session_id=session_id)

    def client_over(self, client: str) -> None:
        """A client is finished: its models, and what waits of them, go before anything else is
        done.
        """
        self._queues.client_over(client)

    async def wait(self, request_id: str, timeout_s: float) -> Future | None:
        """As soon as the operation is done, or at the end of ``timeout_s``."""
        await self._queues.wait(request_id, timeout_s)
        return Future.of(await self._journal.run(self._table.find, request_id), self.position)

    def position(self, operation: Operation) -> str:
        """Why an operation is not done yet, in words for its client."""
        return self._runner.held_by or self._queues.position(operation)

    async def run(self) -> None:
        """Do what can be done, one operation at a time, or short ones of several models at one.
        Raises what loses the trainer.
        """
        try:
            while True:
                while (finished := self._queues.take_finished()) is not None:
                    await self._client_forget(*finished)
                if turns := self._queues.take_next():
                    await self._do(turns)
                elif not await self._queues.change():
                    for unused in self._queues.give_up():
                        await self._use_up(unused)
        finally:
            for task in self._tail:
                task.cancel()
            await asyncio.gather(*self._tail, return_exceptions=True)

    async def save_all(self) -> None:
        """Save the state of every model, so that a later runtime has nothing to do again. Call it
        after ``run``.
        """
        for model_id, seq_id in self._queues.settled():
            if await self._work.save(model_id, seq_id):
                await self._saved(model_id, seq_id)

    async def _do(self, turns: Sequence[Turn]) -> None:
        operations = [await self._find(waiting) for _, waiting in turns]
        began = time.monotonic()
        results: Sequence[Result | Awaitable[Result]] | None = None
        if len(operations) > 1:
            results = await self._runner.run_joined(operations)
        if results is None:
            self._queues.put_back(turns[1:])
            turns, operations = turns[:1], operations[:1]
            results = [await self._runner.run(operations[0])]
        for (queue, _), operation, result in zip(turns, operations, results, strict=True):
            await self._done(queue, operation, result, began)
        # After all answers: a state takes long to write.
        for (queue, _), operation in zip(turns, operations, strict=True):
            await self._save_when_due(queue, operation)

    async def _find(self, waiting: Operation) -> Operation:
        operation = await self._journal.run(self._table.find, waiting.request_id)
        assert operation is not None, "what was taken is in the journal"
        return operation

    async def _done(
        self,
        queue: ModelQueue,
        operation: Operation,
        result: Result | Awaitable[Result],
        began: float,
    ) -> None:
        tokens = result.tokens if isinstance(result, Result) else 0
        self._queues.charge(operation.model_id, tokens)
        if isinstance(result, Result):
            await self._finish(queue, operation, result, began)
        else:
            task = asyncio.create_task(self._finish_later(queue, operation, result, began))
            self._tail.add(task)
            task.add_done_callback(self._tail.discard)

    async def _save_when_due(self, queue: ModelQueue, operation: Operation) -> None:
        if not queue.unfinished and not operation.is_done:
            seq_id = operation.seq_id
            if await self._work.save_when_due(
                operation.model_id, seq_id, size_bytes=len(operation.body)
            ):
                await self._saved(operation.model_id, seq_id)

    async def _finish_later(
        self, queue: ModelQueue, operation: Operation, rest: Awaitable[Result], began: float
    ) -> None:
        await self._finish(queue, operation, await rest, began)

    async def _finish(
        self, queue: ModelQueue, operation: Operation, result: Result, began: float
    ) -> None:
        if not operation.is_done:
            await self._journal.run(self._table.finish, operation, result.kind, result.body)
            self.steps_done += operation.kind == "optim_step" and result.kind == "json"
        self._events.publish(
            OperationDone(operation, result, time.monotonic() - began, again=operation.is_done)
        )
        queue.unfinished.discard(operation.seq_id)
        self._queues.end(operation.request_id)

    async def _saved(self, model_id: str, seq_id: int) -> None:
        # In this order: a kill in between leaves the state that the journal names.
        await self._journal.run(self._table.saved, model_id, seq_id)
        await self._work.keep_only(model_id, seq_id)

    async def _use_up(self, unused: list[Operation]) -> None:
        for operation in await self._journal.run(self._table.take_all, unused):
            self._queues.add(operation)

    async def _client_forget(self, client: str, model_ids: list[str]) -> None:
        for model_id in model_ids:
            waiting = self._queues.remove(model_id)
            await self._work.forget(model_id)
            for operation in waiting:
                self._queues.end(operation.request_id)
        await self._journal.run(self._table.client_forget, client)
