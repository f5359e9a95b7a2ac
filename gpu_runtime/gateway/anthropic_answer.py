"""A call as Anthropic's Messages dialect answers it: one message of blocks, or the events in which they come to be."""

import json
from collections.abc import AsyncGenerator
from typing import Any

from gpu_runtime.gateway.call_ids import MESSAGE, spelled
from gpu_runtime.gateway.chat_answer import policy_version, usage
from gpu_runtime.gateway.live_call import LiveCall
from gpu_runtime.gateway.plan import ChatPlan
from gpu_runtime.journal_records import CallRecord, Completion


def message(plan: ChatPlan, record: CallRecord) -> dict[str, Any]:
    """The whole answer."""
    answer, counted = record.completions[0], usage(record)
    text = answer.message["content"] or ""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    for call in answer.message.get("tool_calls", []):
        function = call["function"]
        called = {"id": call["id"], "name": function["name"], "input": _input(function["arguments"])}
        blocks.append({"type": "tool_use", **called})
    head = _head(plan, record.id, counted["prompt_tokens"])
    head["usage"]["output_tokens"] = counted["completion_tokens"]
    return head | _end(answer) | {"content": blocks, "policy_version": policy_version(record)}


async def message_events(plan: ChatPlan, live: LiveCall, created: float) -> AsyncGenerator[bytes, None]:
    """The answer in events; the last ones are sent once the call is on disk. Raises the call's error."""
    yield _event("message_start", message=_head(plan, live.id, len(live.prompt_ids)))
    blocks, reader = _Blocks(), plan.reader()
    async for _, delta in live.read():
        text, calls = reader.more(delta.text, delta.token_ids_T)
        for event in blocks.text(text):
            yield event
        for piece in calls:
            if piece.name is not None:
                head = plan.call_head(live.id, 0, piece.index, piece.name)
                for event in blocks.begin({"type": "tool_use", "id": head["id"], "name": piece.name, "input": {}}):
                    yield event
            yield blocks.more({"type": "input_json_delta", "partial_json": piece.arguments})
    assert live.record is not None, "read() ends with a record or raises"
    whole = message(plan, live.record)
    for event in blocks.text(reader.rest(live.record.completions[0].message["content"] or "")):
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
    """Numbers the blocks of one stream: beginning the next one ends the one before."""

    def __init__(self) -> None:
        self.begun = 0

    def text(self, more: str) -> list[bytes]:
        if not more:
            return []
        begun = [] if self.begun else self.begin({"type": "text", "text": ""})
        return [*begun, self.more({"type": "text_delta", "text": more})]

    def begin(self, block: dict[str, Any]) -> list[bytes]:
        before, self.begun = self.end(), self.begun + 1
        return [*before, _event("content_block_start", index=self.begun - 1, content_block=block)]

    def more(self, delta: dict[str, Any]) -> bytes:
        return _event("content_block_delta", index=self.begun - 1, delta=delta)

    def end(self) -> list[bytes]:
        return [_event("content_block_stop", index=self.begun - 1)] if self.begun else []


def _input(arguments: str) -> dict[str, Any]:
    """Nothing of a call that was cut short: half an object is none."""
    try:
        value = json.loads(arguments)
    except ValueError:
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


def _head(plan: ChatPlan, call_id: str, read: int) -> dict[str, Any]:
    return {
        "id": spelled(MESSAGE, call_id),
        "type": "message",
        "role": "assistant",
        "model": plan.request.model,
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
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields}, separators=(',', ':'))}\n\n".encode()
