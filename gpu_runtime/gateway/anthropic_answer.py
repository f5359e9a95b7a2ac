"""A call as Anthropic's Messages dialect answers it: one message of blocks, or the events in which they come to be."""

import json
from collections.abc import AsyncIterator
from typing import Any

from gpu_runtime.gateway.call_ids import MESSAGE, spelled
from gpu_runtime.gateway.chat_answer import PlainText, policy_version, usage
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
        called = {"id": call["id"], "name": function["name"], "input": json.loads(function["arguments"])}
        blocks.append({"type": "tool_use", **called})
    head = _head(plan, record.id, counted["prompt_tokens"])
    head["usage"]["output_tokens"] = counted["completion_tokens"]
    return head | _end(answer) | {"content": blocks, "policy_version": policy_version(record)}


async def message_events(plan: ChatPlan, live: LiveCall, created: float) -> AsyncIterator[bytes]:
    """The answer in events; the last ones are sent once the call is on disk. Raises the call's error."""
    yield _event("message_start", message=_head(plan, live.id, len(live.prompt_ids)))
    text, begun = PlainText(plan), False
    async for _, delta in live.read():
        if more := text.more(delta.text):
            if not begun:
                yield _begin(0, {"type": "text", "text": ""})
            begun = True
            yield _delta(0, {"type": "text_delta", "text": more})
    assert live.record is not None, "read() ends with a record or raises"
    whole = message(plan, live.record)
    for index, block in enumerate(whole["content"]):
        if block["type"] == "tool_use":
            yield _begin(index, block | {"input": {}})
            yield _delta(index, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])})
        else:
            if not begun:
                yield _begin(index, {"type": "text", "text": ""})
            if rest := text.rest(block["text"]):
                yield _delta(index, {"type": "text_delta", "text": rest})
        yield _event("content_block_stop", index=index)
    end = {name: whole[name] for name in ("stop_reason", "stop_sequence")}
    yield _event("message_delta", delta=end, usage=whole["usage"])
    yield _event("message_stop")


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


def _begin(index: int, block: dict[str, Any]) -> bytes:
    return _event("content_block_start", index=index, content_block=block)


def _delta(index: int, delta: dict[str, Any]) -> bytes:
    return _event("content_block_delta", index=index, delta=delta)


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields}, separators=(',', ':'))}\n\n".encode()
