"""What an engine sampled, as the message that a client reads."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpu_runtime.gateway.tinker import messages
from gpu_runtime.gateway.tinker.requests import Sample
from gpu_runtime.gateway.tinker.samples.prompt_targets import draws_write, scores_write
from gpu_runtime.interfaces import Delta, SampleOrder, SampleOutcome

EMPTY_LOGPROB = -99999.0  # of a cell of the top k that holds nothing


def response_write(sample: Sample, order: SampleOrder, outcome: SampleOutcome) -> bytes:
    """A SampleResponse."""
    response, scores_P = messages.SampleResponse(), outcome.prompt_logprobs_P
    for answer in outcome.answers:
        # The engine makes one token at least; a client that asked for none gets none.
        made = (
            Delta("", (), (), answer.version) if sample.sampling_params.max_tokens == 0 else answer
        )
        _sequence_add(response, made, sample.topk_sample_logprobs)
    response.prompt_cache_hit_tokens = outcome.cached_tokens
    first = len(scores_P) - (sample.prompt_logprobs_last_n or len(scores_P))
    if sample.prompt_logprobs and scores_P:
        places = enumerate(zip(order.prompt_ids, scores_P, strict=True))
        own = [
            math.nan if place < first else scores.get(token, math.nan)
            for place, (token, scores) in places
        ]
        response.prompt_logprobs = np.array(own, "<f4").tobytes()
    if sample.topk_prompt_logprobs:
        rows = [row if place >= first else {} for place, row in enumerate(scores_P)]
        _top_write(response.topk_prompt_logprobs, rows, sample.topk_prompt_logprobs)
    if sample.target_prompt_logprobs is not None:
        message = response.target_prompt_logprobs
        scores_write(
            message, sample.target_prompt_logprobs, order.prompt_targets_R, outcome.prompt_targets_R
        )
    if sample.prompt_alt_tokens_k:
        draws_write(response.prompt_alt_tokens, outcome.prompt_draws_R, sample.prompt_alt_tokens_k)
    return response.SerializeToString()


def _sequence_add(response: Any, answer: Delta, top: int) -> None:
    sequence = response.sequences.add(
        stop_reason=messages.STOP if answer.finish_reason == "stop" else messages.LENGTH,
        tokens=np.array(answer.token_ids_T, "<i4").tobytes(),
        logprobs=np.array(answer.logprobs_T, "<f4").tobytes(),
    )
    if top:
        _top_write(sequence.topk_sampled_logprobs, answer.top_logprobs_T, top)


def _top_write(message: Any, rows: Sequence[Mapping[int, float]], k: int) -> None:
    """Of each row the k likeliest, the likeliest first."""
    ids, scores = np.zeros((len(rows), k), "<i4"), np.full((len(rows), k), EMPTY_LOGPROB, "<f4")
    for place, row in enumerate(rows):
        for column, (token_id, score) in enumerate(
            sorted(row.items(), key=lambda pair: -pair[1])[:k]
        ):
            ids[place, column], scores[place, column] = token_id, score
    message.token_ids, message.logprobs = ids.tobytes(), scores.tobytes()
    message.k, message.length = k, len(rows)
