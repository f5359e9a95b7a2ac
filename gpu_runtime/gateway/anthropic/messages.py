"""A call in Anthropic's Messages dialect: one message of content blocks, or the events of a stream
of them.
"""

import json
from collections.abc import AsyncGenerator
from typing import Any

from gpu_runtime.gateway.openai.chat import policy_version, usage
from gpu_runtime.generation.call_stream import CallStream
from gpu_runtime.generation.chat_prompt import PreparedChat
from gpu_runtime.journal.records import MESSAGE, CallRecord, Completion, signature_of, with_prefix
from gpu_runtime.rendering.calls.json_text import load
from gpu_runtime.rendering.calls.pieces import CallPiece


def message(prepared: PreparedChat, record: CallRecord) -> dict[str, Any]:
    """The response body of a request that does not stream, from the recorded call."""
    answer, counted = record.completions[0], usage(record)
    text = answer.message["content"] or ""
    blocks: list[dict[str, Any]] = (
        [_thinking(thoughts, signature_of(record.id))]
        if (thoughts := answer.message.get("reasoning_content"))
        else []
    )
    blocks += [{"type": "text", "text": text}] if text else []
    for call in answer.message.get("tool_calls", []):
        function = call["function"]
        called = {
            "id": call["id"],
            "name": function["name"],
            "input": _input(function["arguments"]),
        }
        blocks.append({"type": "tool_use", **called})
    head = _head(prepared, record.id, counted["prompt_tokens"])
    # the two counts of input tokens add up to the whole prompt
    cached = record.cached_tokens
    head["usage"] |= {
        "input_tokens": counted["prompt_tokens"] - cached,
        "cache_read_input_tokens": cached,
        "output_tokens": counted["completion_tokens"],
    }
    return head | _end(answer) | {"content": blocks, "policy_version": policy_version(record)}


async def message_events(
    prepared: PreparedChat, live: CallStream, created: float
) -> AsyncGenerator[bytes, None]:
    """The message as events; the last ones are sent once the call is on disk. Raises the call's
    error.
    """
    yield _event("message_start", message=_head(prepared, live.id, len(live.prompt_ids)))
    blocks, reader = _Blocks(signature_of(live.id)), prepared.form.reader()
    async for _, delta in live.read():
        thoughts, text, calls = reader.more(delta.text, delta.token_ids_T)
        for event in [*blocks.thinking(thoughts), *blocks.text(text)]:
            yield event
        for piece in calls:
            if piece.name is not None:
                head = prepared.form.call_head(live.id, 0, piece.index, piece.name, piece.id)
                for event in blocks.begin(
                    {"type": "tool_use", "id": head["id"], "name": piece.name, "input": {}}
                ):
                    yield event
            yield blocks.arguments(piece)
    assert live.record is not None, "read() ends with a record or raises"
    whole = message(prepared, live.record)
    answer = live.record.completions[0].message
    closing = list(map(blocks.arguments, reader.close()))
    thoughts = reader.rest_of_thoughts(answer.get("reasoning_content", ""))
    rest = [*blocks.thinking(thoughts), *blocks.text(reader.rest(answer["content"] or ""))]
    for event in [*closing, *rest]:
        yield event
    for block in whole["content"][blocks.begun :]:
        for event in blocks.begin(block | {"input": {}}):
            yield event
        yield blocks.more({"type": "input_json_delta", "partial_json": json.dumps(block["input"])})
    for event in blocks.end():
        yield event
    end = {name: whole[name] for name in ("stop_reason", "stop_sequence")}
    yield _event("message_delta", delta=end, usage=whole["usage"])
    yield _event("message_stop")


class _Blocks:
    """Numbers the blocks of one stream: beginning the next one ends the one before, and
    ``signature`` ends thoughts."""

    def __init__(self, signature: str) -> None:
        self.begun, self._kind, self._signature = 0, "", signature

    def thinking(self, more: str) -> list[bytes]:
        return (
            self._add(_thinking("", ""), {"type": "thinking_delta", "thinking": more})
            if more
            else []
        )

    def text(self, more: str) -> list[bytes]:
        return (
            self._add({"type": "text", "text": ""}, {"type": "text_delta", "text": more})
            if more
            else []
        )

    def arguments(self, piece: CallPiece) -> bytes:
        return self.more({"type": "input_json_delta", "partial_json": piece.arguments})

    def _add(self, empty: dict[str, Any], delta: dict[str, Any]) -> list[bytes]:
        begun = [] if self._kind == empty["type"] else self.begin(empty)
        return [*begun, self.more(delta)]

    def begin(self, block: dict[str, Any]) -> list[bytes]:
        before, self.begun, self._kind = self.end(), self.begun + 1, block["type"]
        return [*before, _event("content_block_start", index=self.begun - 1, content_block=block)]

    def more(self, delta: dict[str, Any]) -> bytes:
        return _event("content_block_delta", index=self.begun - 1, delta=delta)

    def end(self) -> list[bytes]:
        if not self.begun:
            return []
        is_signed = self._kind == "thinking"
        signed = (
            [self.more({"type": "signature_delta", "signature": self._signature})]
            if is_signed
            else []
        )
        return [*signed, _event("content_block_stop", index=self.begun - 1)]


def _thinking(thoughts: str, signature: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": thoughts, "signature": signature}


def _input(arguments: str) -> dict[str, Any]:
    """The arguments as an object; empty for JSON that was cut short or that no reader of JSON
    takes.
    """
    try:
        value = load(arguments)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _end(answer: Completion) -> dict[str, Any]:
    if answer.finish_reason == "length":
        return {"stop_reason": "max_tokens", "stop_sequence": None}
    if answer.message.get("tool_calls"):
        return {"stop_reason": "tool_use", "stop_sequence": None}
    if answer.stop_reason is not None:
        return {"stop_reason": "stop_sequence", "stop_sequence": answer.stop_reason}
    return {"stop_reason": "end_turn", "stop_sequence": None}


def _head(prepared: PreparedChat, call_id: str, read: int) -> dict[str, Any]:
    return {
        "id": with_prefix(MESSAGE, call_id),
        "type": "message",
        "role": "assistant",
        "model": prepared.request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": read,
            "output_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    }


def _event(kind: str, **fields: Any) -> bytes:
    return (
        f"event: {kind}\ndata: {json.dumps({'type': kind, **fields}, separators=(',', ':'))}\n\n"
    ).encode()


PING = _event("ping")
