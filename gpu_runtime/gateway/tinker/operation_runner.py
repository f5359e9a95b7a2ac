"""One operation of a model, done with its work, and what any end of it is to its client."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from gpu_runtime.errors import (
    CheckpointDeleted,
    InputUnusable,
    RuntimeFault,
    StoreFull,
    StoreUnavailable,
    UploadRefused,
)
from gpu_runtime.gateway.tinker.data import UserMistake
from gpu_runtime.gateway.tinker.model_queue import MISSING
from gpu_runtime.gateway.tinker.results import Result
from gpu_runtime.gateway.tinker.work import ModelWork
from gpu_runtime.journal.model_table import Operation
from gpu_runtime.model_interfaces import InvalidTrainingInput

# how long, and how often, a store is asked for what has to be done again
STORE_S, STORE_INTERVAL_S = 600.0, 5.0
DoneT = TypeVar("DoneT")
log = logging.getLogger(__name__)


class OperationRunner:
    """``held_by`` says in words what every operation waits for; empty while nothing holds them
    up.
    """

    def __init__(self, work: ModelWork) -> None:
        self._work, self.held_by = work, ""

    async def run(self, operation: Operation) -> Result | Awaitable[Result]:
        """What came of it, or work that can go on beside later operations and returns it. Raises
        what loses the trainer.
        """
        if operation.kind == MISSING:
            return Result.mistake(operation.body.decode())
        if operation.result_kind == "error" and operation.kind != "create_model":
            # it changed nothing when it was done: done again it might, its client gone on
            return Result.mistake("")
        done = await _attempt(self._work.do(operation, again=operation.is_done))
        if isinstance(done, StoreUnavailable) and operation.result_kind not in (None, "error"):
            done = await self._again(operation, done)
        if isinstance(done, Exception):
            return _failure(operation, done)
        return done if isinstance(done, Result) else self._rest(operation, done)

    async def run_joined(self, operations: Sequence[Operation]) -> list[Result] | None:
        """What came of operations of several models in one pass; None where each is to be run by
        itself, with an end of its own. Raises what loses the trainer.
        """
        found = await _attempt(self._work.do_joined(operations))
        if isinstance(found, Exception):  # of one of them: alone it says so
            log.warning("%d operations are done one by one: %s", len(operations), found)
            return None
        return found

    async def _again(
        self, operation: Operation, away: StoreUnavailable
    ) -> Result | Awaitable[Result]:
        """What was done before, and has to be: a model without it would not be what its client
        trained.
        """
        deadline = time.monotonic() + STORE_S
        while time.monotonic() < deadline and not isinstance(away, CheckpointDeleted):
            self.held_by = (
                f"the object store is away, and {operation.kind} of "
                f"{operation.model_id} needs it: {away}"
            )
            log.warning("%s", self.held_by)
            await asyncio.sleep(STORE_INTERVAL_S)
            try:
                result = await self._work.do(operation, again=True)
            except StoreUnavailable as error:
                away = error
            else:
                self.held_by = ""
                return result
        raise away

    async def _rest(self, operation: Operation, rest: Awaitable[Result]) -> Result:
        try:
            return await rest
        except Exception as error:  # noqa: BLE001 - the top of this work: the session goes on
            return _failure(operation, error)


async def _attempt(work: Awaitable[DoneT]) -> DoneT | Exception:
    """What came of it, or the error that a client is told. Raises what loses the trainer."""
    try:
        return await work
    except StoreUnavailable as away:
        return away
    except Exception as error:  # the top of an operation: its client is told, later ones go on
        if isinstance(error, RuntimeFault) and not isinstance(error, InputUnusable):
            raise  # a process is lost: the next runtime goes on from here
        return error


def _failure(operation: Operation, error: Exception) -> Result:
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
