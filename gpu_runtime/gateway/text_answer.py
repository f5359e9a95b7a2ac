"""A call as the older completions dialect answers it: plain text, one object or chunks."""

import itertools
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from gpu_runtime.gateway.call_ids import TEXT, spelled
from gpu_runtime.gateway.chat_answer import DONE, policy_version, sse, usage
from gpu_runtime.gateway.live_call import LiveCall
from gpu_runtime.gateway.text_plan import TextPlan
from gpu_runtime.interfaces import Delta
from gpu_runtime.journal_records import CallRecord, Completion


def text_completion(plan: TextPlan, record: CallRecord) -> dict[str, Any]:
    """The whole answer; token ids stand in each choice."""
    choices = []
    for answer in record.completions:
        body = _piece(plan, answer, answer.text, offset=0)
        if plan.request.wants_ids:
            body["prompt_token_ids"] = list(record.prompt_ids_P)
        choices.append(body | _end(answer) | {"index": answer.choice})
    head = _head(plan, record.id, record.begun_at)
    return head | {"choices": choices, "usage": usage(record), "policy_version": policy_version(record)}


async def text_chunks(plan: TextPlan, live: LiveCall, created: float) -> AsyncGenerator[bytes, None]:
    """The answer in chunks; the finish reasons are sent once the call is on disk. Raises the call's error."""
    head = _head(plan, live.id, created) | ({"usage": None} if plan.request.wants_usage else {})
    offsets: dict[int, int] = {}
    async for choice, delta in live.read():
        body = _piece(plan, delta, delta.text, offsets.get(choice, 0))
        if plan.request.wants_ids and choice not in offsets:
            body["prompt_token_ids"] = list(live.prompt_ids)
        offsets[choice] = offsets.get(choice, 0) + len(delta.text)
        body |= {"index": choice, "finish_reason": None}
        yield sse(head | {"choices": [body], "policy_version": delta.version})
    assert live.record is not None, "read() ends with a record or raises"
    for answer in live.record.completions:
        yield sse(head | {"choices": [{"index": answer.choice, "text": "", "logprobs": None, **_end(answer)}]})
    if plan.request.wants_usage:
        yield sse(head | {"choices": [], "usage": usage(live.record)})
    yield DONE


def _head(plan: TextPlan, call_id: str, created: float) -> dict[str, Any]:
    name = spelled(TEXT, call_id)
    return {"id": name, "object": "text_completion", "created": int(created), "model": plan.request.model}


def _piece(plan: TextPlan, sampled: Delta | Completion, text: str, offset: int) -> dict[str, Any]:
    body: dict[str, Any] = {"text": text, "logprobs": None}
    if plan.request.wants_logprobs:
        body["logprobs"] = _logprobs(plan, sampled, offset)
    if plan.request.wants_ids:
        body["token_ids"] = list(sampled.token_ids_T)
    return body


def _end(answer: Completion) -> dict[str, Any]:
    return {"finish_reason": answer.finish_reason, "stop_reason": answer.stop_reason}


def _logprobs(plan: TextPlan, sampled: Delta | Completion, offset: int) -> dict[str, Any]:
    tokens = [plan.renderer.token_text(token) for token in sampled.token_ids_T]
    offsets = list(itertools.accumulate((len(token) for token in tokens[:-1]), initial=offset))[: len(tokens)]
    tops: Sequence[dict[int, float]] = sampled.top_logprobs_T
    return {
        "tokens": tokens,
        "token_logprobs": list(sampled.logprobs_T),
        "top_logprobs": [{plan.renderer.token_text(t): lp for t, lp in top.items()} for top in tops] or None,
        "text_offset": offsets,
    }
