"""What vLLM is asked for and returns of a call, as the rest of the runtime has it: options, tokens,
times.
"""

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpu_runtime.engine.raw_logprobs import raw_asked
from gpu_runtime.interfaces import Delta, SamplingOptions
from tinkerscript.processes.tracing import span_past

if TYPE_CHECKING:
    from vllm.outputs import RequestOutput
    from vllm.sampling_params import SamplingParams
    from vllm.v1.metrics.stats import RequestStateStats


def engine_parameters(
    options: SamplingOptions, *, with_raw: bool = False, answers: int | None = None
) -> "SamplingParams":
    """``options`` as vLLM takes them; ``with_raw``: with what raw_logprobs.py adds.

    ``answers``: so many as a whole, each to its end, which a string that stopped it is a part of;
    None streams one.
    """
    from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

    structured = None
    if options.structural_tag is not None:
        structured = StructuredOutputsParams(structural_tag=options.structural_tag)
    elif options.json_schema is not None:
        json_object = options.json_schema == "{}"
        structured = StructuredOutputsParams(
            json_object=json_object or None, json=None if json_object else options.json_schema
        )
    return SamplingParams(
        max_tokens=options.max_tokens,
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=options.top_k,
        min_p=options.min_p,
        frequency_penalty=options.frequency_penalty,
        presence_penalty=options.presence_penalty,
        repetition_penalty=options.repetition_penalty,
        logit_bias=dict(options.logit_bias) or None,
        min_tokens=options.min_tokens,
        stop_token_ids=list(options.stop_token_ids) or None,
        ignore_eos=options.ignore_eos,
        prompt_logprobs=options.prompt_logprobs,
        stop=list(options.stop) or None,
        seed=options.seed,
        logprobs=options.top_logprobs + with_raw,  # 0 asks for the sampled token's alone
        extra_args=raw_asked() if with_raw else None,
        structured_outputs=structured,
        skip_special_tokens=True,
        n=answers or 1,
        output_kind=RequestOutputKind.FINAL_ONLY if answers else RequestOutputKind.DELTA,
        include_stop_str_in_output=answers is not None,
        detokenize=answers is None or bool(options.stop),
    )


def delta_of(
    output: "RequestOutput",
    version: int,
    options: SamplingOptions,
    *,
    with_raw: bool = False,
    index: int = 0,
) -> Delta:
    """The tokens since the last output of a call, and what ``options`` asked for about each and
    about the prompt.

    ``with_raw``: the last entry of each row is that of raw_logprobs.py. ``index`` is that of one of
    several answers.
    """
    completion, of_prompt = output.outputs[index], output.prompt_logprobs
    ids = tuple(completion.token_ids)
    by_token = [
        {token: of.logprob for token, of in entry.items()} for entry in completion.logprobs or []
    ]
    raw_T = tuple(entry.popitem()[1] for entry in by_token) if with_raw else ()
    rows_P = of_prompt if options.prompt_logprobs is not None and of_prompt else ()
    return Delta(
        text=completion.text,
        token_ids_T=ids,
        logprobs_T=tuple(entry[token] for token, entry in zip(ids, by_token, strict=True)),
        version=version,
        finish_reason=completion.finish_reason,
        top_logprobs_T=tuple(map(_possible, by_token)) if options.top_logprobs else (),
        stop_reason=completion.stop_reason if isinstance(completion.stop_reason, str) else None,
        prompt_logprobs_P=tuple(
            _possible({token: of.logprob for token, of in (entry or {}).items()})
            for entry in rows_P
        ),
        raw_logprobs_T=raw_T,
        cached_tokens=output.num_cached_tokens or 0,
    )


def _possible(logprobs: Mapping[int, float]) -> dict[int, float]:
    """Without the alternatives that top_p or a grammar ruled out: minus infinity is no number in
    JSON.
    """
    return {token: logprob for token, logprob in logprobs.items() if logprob > -math.inf}


def call_spans(times: "RequestStateStats") -> None:
    """The parts of a finished call in the engine's core, inside the span around this; nothing where
    nothing is traced.

    The core's times are seconds of the machine's monotonic clock, which all its processes share,
    and 0 for what never came: a call that ends early has no first token. vLLM exports such spans
    itself, with a provider that waits at the end of the process for a collector that is away; so
    only its times are used.
    """
    wall = time.time() - time.monotonic()
    queued, scheduled, first, last = (
        times.queued_ts,
        times.scheduled_ts,
        times.first_token_ts,
        times.last_token_ts,
    )
    if scheduled >= queued > 0:
        span_past(
            "engine queue", wall + queued, wall + scheduled, preemptions=times.num_preemptions
        )
    if first >= scheduled > 0:
        span_past("engine prefill", wall + scheduled, wall + first)
    if last >= first > 0:
        span_past(
            "engine decode", wall + first, wall + last, sampled_tokens=times.num_generation_tokens
        )
