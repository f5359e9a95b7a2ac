"""Operations that compute a loss: from bytes to a trainer's call, alone or joined with those of
other models, and back to bytes.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from gpu_runtime.gateway.tinker.data import (
    UserMistake,
    data_read,
    loss_config_read,
    output_write,
    request_parse,
)
from gpu_runtime.gateway.tinker.results import Measured, Result
from gpu_runtime.journal.model_table import Operation
from gpu_runtime.model_interfaces import ForwardResult, ModelCall, ModelTrainer


class TrainingCalls:
    """Does them with a trainer."""

    def __init__(self, trainer: ModelTrainer) -> None:
        self._trainer = trainer

    async def alone(self, operation: Operation, *, again: bool) -> Result:
        """``again``: it was done before, and its result is known. Raises UserMistake."""
        request = await asyncio.to_thread(request_parse, operation.body)
        if again and request.forward_only:
            return Result.of({})
        call = await _call(operation, request)
        model = self._trainer.model(call.model_id)
        compute = model.forward if request.forward_only else model.forward_backward
        result = await compute(call.data, call.loss_fn, call.loss_config)
        return await _result(call, result, is_forward=request.forward_only)

    async def joined(self, operations: Sequence[Operation]) -> list[Result] | None:
        """Those of several models in one pass; None, and nothing is done, where each has to be
        alone.
        """
        try:
            requests = [
                await asyncio.to_thread(request_parse, operation.body) for operation in operations
            ]
            if any(request.forward_only for request in requests):
                return None
            calls = [
                await _call(operation, request)
                for operation, request in zip(operations, requests, strict=True)
            ]
        except UserMistake:
            return None
        results = await self._trainer.forward_backward_joined(calls)
        if results is None:
            return None
        return [
            await _result(call, result, is_forward=False)
            for call, result in zip(calls, results, strict=True)
        ]


async def _call(operation: Operation, request: Any) -> ModelCall:
    data = await asyncio.to_thread(data_read, request)
    return ModelCall(operation.model_id, data, request.loss_fn, loss_config_read(request))


async def _result(call: ModelCall, result: ForwardResult, *, is_forward: bool) -> Result:
    tokens = sum(len(datum.token_ids_N) for datum in call.data)
    measured = Measured("forward" if is_forward else "forward_backward", result.metrics)
    return Result("proto", await asyncio.to_thread(output_write, result), tokens, measured)
