"""A call in OpenAI's chat dialect: one object, or server-sent chunks while it is sampled."""

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from gpu_runtime.generation.answer_form import Reader
from gpu_runtime.generation.call_stream import CallStream
from gpu_runtime.generation.chat_prompt import PreparedChat
from gpu_runtime.generation.labels import LABELS
from gpu_runtime.generation.requests import NamedTool
from gpu_runtime.generation.sampling import stopped_by
from gpu_runtime.generation.schemas import WARNING
from gpu_runtime.interfaces import Delta
from gpu_runtime.journal.records import CHAT, CallRecord, Completion, with_prefix
from gpu_runtime.rendering.calls.pieces import CallPiece
from gpu_runtime.rendering.custom_tools import as_custom
from gpu_runtime.rendering.marks import tokens_until
from gpu_runtime.rendering.renderer import Renderer

DONE = b"data: [DONE]\n\n"


def chat_completion(prepared: PreparedChat, record: CallRecord) -> dict[str, Any]:
    """The whole response body. ``prompt_token_ids`` and ``token_ids`` are what the engine read and
    sampled.
    """
    answer = _head(record.id, record.begun_at, prepared, "chat.completion") | {
        "choices": [_choice(prepared, completion) for completion in record.completions],
        "usage": _usage(prepared, record),
        "policy_version": policy_version(record),
    }
    if warned := record.options.get(LABELS, {}).get(WARNING):
        answer["warnings"] = [f"{WARNING}: {', '.join(warned)}"]
    if prepared.request.wants_ids:
        answer["prompt_token_ids"] = list(record.prompt_ids_P)
    if prepared.request.prompt_logprobs is not None:
        answer["prompt_logprobs"] = prompt_logprobs(prepared.renderer, record)
    return answer


async def chat_chunks(
    prepared: PreparedChat, live: CallStream, created: float
) -> AsyncGenerator[bytes, None]:
    """The answer in chunks; those with a finish reason are sent once the call is on disk. Raises
    the call's error.
    """
    head = _head(live.id, created, prepared, "chat.completion.chunk")
    if prepared.request.wants_usage:
        head["usage"] = None
    readers = [prepared.form.reader() for _ in range(prepared.choices)]
    opened: set[int] = set()
    called: dict[int, set[int]] = {}  # which calls were streamed, by choice
    held: dict[int, dict[str, Any]] = {}  # tokens that have said nothing yet, by choice
    async for choice, delta in live.read():
        if choice not in opened:
            opened.add(choice)
            first = {"delta": {"role": "assistant", "content": ""}}
            ids = (
                {"prompt_token_ids": list(live.prompt_ids)}
                if prepared.request.wants_ids and len(opened) == 1
                else {}
            )
            yield _chunk(head | ids, choice, first)
        body = _joined(
            held.pop(choice, None), _delta_body(prepared, live.id, choice, readers[choice], delta)
        )
        # nothing to say yet: clients take a chunk that says nothing for an error
        if not body["delta"]:
            held[choice] = body
            continue
        called.setdefault(choice, set()).update(
            call["index"] for call in body["delta"].get("tool_calls", [])
        )
        yield _chunk(head | {"policy_version": delta.version}, choice, body)
    assert live.record is not None, "read() ends with a record or raises"
    head |= {"policy_version": policy_version(live.record)}
    for completion in live.record.completions:
        calls = enumerate(_calls(prepared, completion))
        unsent = [
            {"index": i, **call}
            for i, call in calls
            if i not in called.get(completion.choice, set())
        ]
        first, *others = _last(prepared, completion, readers[completion.choice], unsent)
        for body in (_joined(held.pop(completion.choice, None), first), *others):
            yield _chunk(head, completion.choice, body)
    del head["policy_version"]
    if "usage" in head:
        yield sse(head | {"choices": [], "usage": _usage(prepared, live.record)})
    yield DONE


def finish_reason(prepared: PreparedChat, completion: Completion) -> str | None:
    """ "tool_calls" when the model chose to call; a call that the client named ends with "stop", as
    with OpenAI.
    """
    called = completion.message.get("tool_calls") and completion.finish_reason == "stop"
    named = prepared.form.forced is not None and isinstance(prepared.request.tool_choice, NamedTool)
    return "tool_calls" if called and not named else completion.finish_reason


def usage(record: CallRecord) -> dict[str, Any]:
    """Tokens read and sampled, end-of-turn tokens included: what the engine did, counted. Of those
    read, how many its prefix cache had."""
    sampled = sum(len(completion.token_ids_T) for completion in record.completions)
    read = len(record.prompt_ids_P)
    return {
        "prompt_tokens": read,
        "completion_tokens": sampled,
        "total_tokens": read + sampled,
        "prompt_tokens_details": {"cached_tokens": record.cached_tokens},
    }


def thought_tokens(prepared: PreparedChat, record: CallRecord) -> int:
    """How many of the sampled tokens are thoughts, their opening mark included."""
    return sum(_thought_tokens(prepared.renderer, completion) for completion in record.completions)


def _thought_tokens(renderer: Renderer, completion: Completion) -> int:
    thoughts, ids = completion.message.get("reasoning_content"), completion.token_ids_T
    if not thoughts:
        return 0
    return tokens_until(renderer.decode, ids, completion.text.find(thoughts) + len(thoughts))


def _usage(prepared: PreparedChat, record: CallRecord) -> dict[str, Any]:
    return usage(record) | {
        "completion_tokens_details": {"reasoning_tokens": thought_tokens(prepared, record)}
    }


def policy_version(record: CallRecord) -> int:
    """The version that sampled the last token of the call."""
    return max(
        (version for completion in record.completions for version in completion.versions_T[-1:]),
        default=0,
    )


def token_logprobs(renderer: Renderer, sampled: Delta | Completion) -> dict[str, Any]:
    """Log-probabilities of sampled tokens, and of the asked number of alternatives."""
    tops: Sequence[dict[int, float]] = sampled.top_logprobs_T or [{}] * len(sampled.token_ids_T)
    content = [
        _token(renderer, token, logprob)
        | {
            "top_logprobs": [
                _token(renderer, t, lp) for t, lp in sorted(top.items(), key=lambda pair: -pair[1])
            ]
        }
        for token, logprob, top in zip(sampled.token_ids_T, sampled.logprobs_T, tops, strict=True)
    ]
    return {"content": content, "refusal": None}


def prompt_logprobs(renderer: Renderer, record: CallRecord) -> list[dict[str, Any] | None]:
    """Of each prompt token, as vLLM shows it: log-probabilities by token id; None of the first
    token.
    """
    return [
        {
            str(t): {"logprob": max(lp, -9999.0), "decoded_token": renderer.token_text(t)}
            for t, lp in entry.items()
        }
        if entry
        else None
        for entry in record.prompt_logprobs_P or []
    ]


def _call_delta(
    prepared: PreparedChat, call_id: str, choice: int, piece: CallPiece
) -> dict[str, Any]:
    head: dict[str, Any] = {"function": {}}
    if piece.name is not None:
        head = prepared.form.call_head(call_id, choice, piece.index, piece.name, piece.id)
    return {
        "index": piece.index,
        **head,
        "function": head["function"] | {"arguments": piece.arguments},
    }


def _delta_body(
    prepared: PreparedChat, call_id: str, choice: int, reader: Reader, delta: Delta
) -> dict[str, Any]:
    thoughts, text, calls = reader.more(delta.text, delta.token_ids_T)
    said: dict[str, Any] = {"content": text} if text else {}
    if thoughts:
        said["reasoning_content"] = thoughts
    # The input of a custom tool is decoded once it is whole.
    calls = [
        piece for piece in calls if reader.name_of(piece.index) not in prepared.request.custom_tools
    ]
    if calls:
        said["tool_calls"] = [_call_delta(prepared, call_id, choice, piece) for piece in calls]
    body: dict[str, Any] = {"delta": said}
    if prepared.request.wants_logprobs:
        body["logprobs"] = token_logprobs(prepared.renderer, delta)
    if prepared.request.wants_ids:
        body["token_ids"] = list(delta.token_ids_T)
    return body


def _joined(held: dict[str, Any] | None, body: dict[str, Any]) -> dict[str, Any]:
    """``body`` with the tokens before it that were held back."""
    if held is None:
        return body
    joined = dict(body)
    if "token_ids" in held:
        joined["token_ids"] = held["token_ids"] + body.get("token_ids", [])
    if "logprobs" in held:
        more = (body.get("logprobs") or {"content": []})["content"]
        joined["logprobs"] = held["logprobs"] | {"content": held["logprobs"]["content"] + more}
    return joined


def _last(
    prepared: PreparedChat, completion: Completion, reader: Reader, calls: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """What is known at the end only: the rest of thoughts, text and a call that was cut, ``calls``
    that were not streamed, why it ends.
    """
    message = completion.message
    rest = {
        "reasoning_content": reader.rest_of_thoughts(message.get("reasoning_content", "")),
        "content": reader.rest(message["content"] or ""),
    }
    bodies: list[dict[str, Any]] = [{"delta": {name: text}} for name, text in rest.items() if text]
    closing = [
        piece
        for piece in reader.close()
        if reader.name_of(piece.index) not in prepared.request.custom_tools
    ]
    cut = [{"index": piece.index, "function": {"arguments": piece.arguments}} for piece in closing]
    bodies += [{"delta": {"tool_calls": [call]}} for call in (*cut, *calls)]
    reason = {
        "finish_reason": finish_reason(prepared, completion),
        "stop_reason": stopped_by(prepared.request, completion),
    }
    return [*bodies, {"delta": {}, **reason}]


def _calls(prepared: PreparedChat, completion: Completion) -> list[dict[str, Any]]:
    """The calls of an answer in the form that their tools were described in."""
    custom = prepared.request.custom_tools
    calls = completion.message.get("tool_calls", [])
    return [as_custom(call) if call["function"]["name"] in custom else call for call in calls]


def _choice(prepared: PreparedChat, completion: Completion) -> dict[str, Any]:
    calls = (
        {"tool_calls": _calls(prepared, completion)} if completion.message.get("tool_calls") else {}
    )
    choice: dict[str, Any] = {
        "index": completion.choice,
        "message": {**completion.message, **calls, "refusal": None},
        "logprobs": token_logprobs(prepared.renderer, completion)
        if prepared.request.wants_logprobs
        else None,
        "finish_reason": finish_reason(prepared, completion),
        "stop_reason": stopped_by(prepared.request, completion),
    }
    if prepared.request.wants_ids:
        choice["token_ids"] = list(completion.token_ids_T)
    return choice


def _token(renderer: Renderer, token_id: int, logprob: float) -> dict[str, Any]:
    text = renderer.token_text(token_id)
    return {"token": text, "logprob": max(logprob, -9999.0), "bytes": list(text.encode())}


def _head(call_id: str, created: float, prepared: PreparedChat, kind: str) -> dict[str, Any]:
    return {
        "id": with_prefix(CHAT, call_id),
        "object": kind,
        "created": int(created),
        "model": prepared.request.model,
    }


def _chunk(head: dict[str, Any], choice: int, body: dict[str, Any]) -> bytes:
    return sse(
        head | {"choices": [{"index": choice, "logprobs": None, "finish_reason": None, **body}]}
    )


def sse(value: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"
