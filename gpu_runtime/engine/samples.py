"""The answers to a SampleOrder, from vLLM's requests: those to the prompt, and of the prompt what
is to be scored.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from gpu_runtime.engine.prompt_rows import Draws, RowsAsked, TargetScores
from gpu_runtime.engine.vllm_output import delta_of, engine_parameters
from gpu_runtime.errors import RequestRefused
from gpu_runtime.interfaces import SampleOrder, SampleOutcome, SamplingOptions

if TYPE_CHECKING:
    from vllm.outputs import RequestOutput
    from vllm.sampling_params import SamplingParams

FirstT = TypeVar("FirstT")
SecondT = TypeVar("SecondT")
# the last output of one request
Last = Callable[[SampleOrder, "SamplingParams"], Awaitable["RequestOutput"]]


async def sample_make(order: SampleOrder, last: Last, version: int) -> SampleOutcome:
    """Several answers take one request; the prompt's scores, which vLLM would compute for each,
    another.

    Raises EngineDead, RequestRefused.
    """
    options, scores = order.options, order.options.prompt_logprobs
    if order.prompt_targets_R or order.prompt_draws:
        rest = sample_make(replace(order, prompt_targets_R=(), prompt_draws=0), last, version)
        (targets_R, draws_R), outcome = await _both(_rows(order, last), rest)
        return replace(outcome, prompt_targets_R=targets_R, prompt_draws_R=draws_R)
    if scores is not None and order.num_samples > 1:
        alone = replace(order, num_samples=1, options=SamplingOptions(1, prompt_logprobs=scores))
        many = replace(order, options=replace(options, prompt_logprobs=None))
        scored, outcome = await _both(
            sample_make(alone, last, version),
            sample_make(many, last, version),
        )
        return replace(scored, answers=outcome.answers)
    output = await last(order, engine_parameters(options, answers=order.num_samples))
    answers = tuple(
        delta_of(output, version, options, index=index) for index in range(order.num_samples)
    )
    if wrong := [
        each for answer in answers for each in answer.logprobs_T if not math.isfinite(each)
    ]:
        raise RequestRefused(
            f"the engine computed {wrong[0]} as the log-probability of a token that it sampled"
        )
    return SampleOutcome(
        answers, answers[0].prompt_logprobs_P, cached_tokens=output.num_cached_tokens or 0
    )


async def _both(first: Awaitable[FirstT], second: Awaitable[SecondT]) -> tuple[FirstT, SecondT]:
    """The results of two requests; where one is refused, the other has ended too."""
    tasks = asyncio.ensure_future(first), asyncio.ensure_future(second)
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()  # does nothing to one that is done
        await asyncio.gather(*tasks, return_exceptions=True)


async def _rows(order: SampleOrder, last: Last) -> tuple[TargetScores, Draws]:
    """What is asked for at each place of the prompt after the first, in one more pass over it."""
    if len(order.prompt_ids) == 1:
        return (), ()
    asked = RowsAsked.of(order)
    output = await last(order, asked.parameters())
    return asked.read(output.prompt_logprobs, order.prompt_targets_R)
