"""A call as the OpenAI dialect answers it: one object, or server-sent chunks while it is sampled."""

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from gpu_runtime.gateway.answer_reader import CallPiece
from gpu_runtime.gateway.call_ids import CHAT, spelled
from gpu_runtime.gateway.live_call import LiveCall
from gpu_runtime.gateway.plan import ChatPlan
from gpu_runtime.gateway.render import Renderer
from gpu_runtime.interfaces import Delta
from gpu_runtime.journal_records import CallRecord, Completion

DONE = b"data: [DONE]\n\n"


def chat_completion(plan: ChatPlan, record: CallRecord) -> dict[str, Any]:
    """The whole answer. ``prompt_token_ids`` and ``token_ids`` are what the engine read and sampled."""
    answer = _head(record.id, record.begun_at, plan, "chat.completion") | {
        "choices": [_choice(plan, completion) for completion in record.completions],
        "usage": usage(record),
        "policy_version": policy_version(record),
    }
    if plan.request.wants_ids:
        answer["prompt_token_ids"] = list(record.prompt_ids_P)
    return answer


async def chat_chunks(plan: ChatPlan, live: LiveCall, created: float) -> AsyncGenerator[bytes, None]:
    """The answer in chunks; those with a finish reason are sent once the call is on disk. Raises the call's error."""
    head = _head(live.id, created, plan, "chat.completion.chunk")
    if plan.request.wants_usage:
        head["usage"] = None
    readers = [plan.reader() for _ in range(plan.choices)]
    opened: set[int] = set()
    called: set[int] = set()
    async for choice, delta in live.read():
        if choice not in opened:
            opened.add(choice)
            first = {"delta": {"role": "assistant", "content": ""}}
            ids = {"prompt_token_ids": list(live.prompt_ids)} if plan.request.wants_ids and len(opened) == 1 else {}
            yield _chunk(head | ids, choice, first)
        text, calls = readers[choice].more(delta.text, delta.token_ids_T)
        body: dict[str, Any] = {"delta": {"content": text} if text else {}}
        if calls:
            body["delta"]["tool_calls"] = [_call_delta(plan, live.id, choice, piece) for piece in calls]
            called.add(choice)
        if plan.request.wants_logprobs:
            body["logprobs"] = token_logprobs(plan.renderer, delta)
        if plan.request.wants_ids:
            body["token_ids"] = list(delta.token_ids_T)
        yield _chunk(head | {"policy_version": delta.version}, choice, body)
    assert live.record is not None, "read() ends with a record or raises"
    for completion in live.record.completions:
        unsent = [] if completion.choice in called else completion.message.get("tool_calls", [])
        rest = readers[completion.choice].rest(completion.message["content"] or "")
        for body in _last(plan, completion, rest, unsent):
            yield _chunk(head | {"policy_version": policy_version(live.record)}, completion.choice, body)
    if "usage" in head:
        yield sse(head | {"choices": [], "usage": usage(live.record)})
    yield DONE


def finish_reason(plan: ChatPlan, completion: Completion) -> str | None:
    """ "tool_calls" when the model chose to call; a call that the client named ends with "stop", as with OpenAI."""
    called = completion.message.get("tool_calls") and completion.finish_reason == "stop"
    named = plan.forced is not None and not isinstance(plan.request.tool_choice, str)
    return "tool_calls" if called and not named else completion.finish_reason


def usage(record: CallRecord) -> dict[str, int]:
    """Tokens read and sampled, end-of-turn tokens included: what the engine did, counted."""
    sampled = sum(len(completion.token_ids_T) for completion in record.completions)
    read = len(record.prompt_ids_P)
    return {"prompt_tokens": read, "completion_tokens": sampled, "total_tokens": read + sampled}


def policy_version(record: CallRecord) -> int:
    """The version that sampled the last token of the call."""
    return max((version for completion in record.completions for version in completion.versions_T[-1:]), default=0)


def token_logprobs(renderer: Renderer, sampled: Delta | Completion) -> dict[str, Any]:
    """Log-probabilities of sampled tokens, and of the asked number of alternatives."""
    tops: Sequence[dict[int, float]] = sampled.top_logprobs_T or [{}] * len(sampled.token_ids_T)
    content = [
        _token(renderer, token, logprob)
        | {"top_logprobs": [_token(renderer, t, lp) for t, lp in sorted(top.items(), key=lambda pair: -pair[1])]}
        for token, logprob, top in zip(sampled.token_ids_T, sampled.logprobs_T, tops, strict=True)
    ]
    return {"content": content, "refusal": None}


def _call_delta(plan: ChatPlan, call_id: str, choice: int, piece: CallPiece) -> dict[str, Any]:
    head = plan.call_head(call_id, choice, piece.index, piece.name) if piece.name is not None else {"function": {}}
    return {"index": piece.index, **head, "function": head["function"] | {"arguments": piece.arguments}}


def _last(plan: ChatPlan, completion: Completion, rest: str, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is known at the end only: the ``rest`` of the text, ``calls`` that were not streamed, and why it ends."""
    bodies: list[dict[str, Any]] = [{"delta": {"content": rest}}] if rest else []
    bodies += [{"delta": {"tool_calls": [{"index": index, **call}]}} for index, call in enumerate(calls)]
    reason = {"finish_reason": finish_reason(plan, completion), "stop_reason": completion.stop_reason}
    return [*bodies, {"delta": {}, **reason}]


def _choice(plan: ChatPlan, completion: Completion) -> dict[str, Any]:
    choice: dict[str, Any] = {
        "index": completion.choice,
        "message": {**completion.message, "refusal": None},
        "logprobs": token_logprobs(plan.renderer, completion) if plan.request.wants_logprobs else None,
        "finish_reason": finish_reason(plan, completion),
        "stop_reason": completion.stop_reason,
    }
    if plan.request.wants_ids:
        choice["token_ids"] = list(completion.token_ids_T)
    return choice


def _token(renderer: Renderer, token_id: int, logprob: float) -> dict[str, Any]:
    text = renderer.token_text(token_id)
    return {"token": text, "logprob": max(logprob, -9999.0), "bytes": list(text.encode())}


def _head(call_id: str, created: float, plan: ChatPlan, kind: str) -> dict[str, Any]:
    return {
        "id": spelled(CHAT, call_id),
        "object": kind,
        "created": int(created),
        "model": plan.request.model,
    }


def _chunk(head: dict[str, Any], choice: int, body: dict[str, Any]) -> bytes:
    return sse(head | {"choices": [{"index": choice, "logprobs": None, "finish_reason": None, **body}]})


def sse(value: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"
