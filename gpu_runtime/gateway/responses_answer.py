"""A call as the Responses dialect answers it: one object of output items, or the events in which they come to be."""

import json
from collections.abc import AsyncIterator
from typing import Any

from gpu_runtime.gateway.call_ids import MESSAGE, RESPONSE, spelled
from gpu_runtime.gateway.chat_answer import PlainText, policy_version, usage
from gpu_runtime.gateway.live_call import LiveCall
from gpu_runtime.gateway.plan import ChatPlan
from gpu_runtime.gateway.responses_requests import ResponsesRequest
from gpu_runtime.journal_records import CallRecord


def response(asked: ResponsesRequest, plan: ChatPlan, record: CallRecord) -> dict[str, Any]:
    """The whole answer."""
    head = _head(asked, plan, record.id, record.begun_at)
    answer = record.completions[0]
    cut = answer.finish_reason == "length"
    calls = answer.message.get("tool_calls", [])
    items = [_call_item(record.id, index, call) for index, call in enumerate(calls)]
    if (content := answer.message["content"] or "") or not calls:
        items.insert(0, _message_item(record.id, content, cut=cut and not calls))
    return head | {
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": items,
        "usage": _usage(record),
        "policy_version": policy_version(record),
    }


async def response_events(
    asked: ResponsesRequest, plan: ChatPlan, live: LiveCall, created: float
) -> AsyncIterator[bytes]:
    """The answer in events; the last one is sent once the call is on disk. Raises the call's error."""
    events = _Events(live.id)
    head = _head(asked, plan, live.id, created)
    yield events.event("response.created", response=head)
    yield events.event("response.in_progress", response=head)
    text = PlainText(plan)
    async for _, delta in live.read():
        for event in events.text(text.more(delta.text)):
            yield event
    assert live.record is not None, "read() ends with a record or raises"
    answer = live.record.completions[0]
    for event in events.text(text.rest(answer.message["content"] or "")):
        yield event
    end = response(asked, plan, live.record) | {"created_at": head["created_at"]}
    for index, item in enumerate(end["output"]):
        for event in events.item_done(index, item):
            yield event
    yield events.event(f"response.{end['status']}", response=end)


class _Events:
    """Numbers the events of one stream, and knows whether its message has begun."""

    def __init__(self, call_id: str) -> None:
        self._call_id, self._number, self._begun = call_id, 0, False

    def event(self, kind: str, **fields: Any) -> bytes:
        body = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return f"event: {kind}\ndata: {json.dumps(body, separators=(',', ':'))}\n\n".encode()

    def text(self, more: str) -> list[bytes]:
        if not more:
            return []
        place = {"item_id": spelled(MESSAGE, self._call_id), "output_index": 0, "content_index": 0}
        return [*self._message_begun(), self.event("response.output_text.delta", **place, delta=more, logprobs=[])]

    def item_done(self, index: int, item: dict[str, Any]) -> list[bytes]:
        place = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            (part,) = item["content"]
            inside = place | {"content_index": 0}
            events = [
                *self._message_begun(),
                self.event("response.output_text.done", **inside, text=part["text"], logprobs=[]),
                self.event("response.content_part.done", **inside, part=part),
            ]
        else:
            empty = item | {"arguments": "", "status": "in_progress"}
            events = [
                self.event("response.output_item.added", output_index=index, item=empty),
                self.event("response.function_call_arguments.delta", **place, delta=item["arguments"]),
                self.event(
                    "response.function_call_arguments.done", **place, name=item["name"], arguments=item["arguments"]
                ),
            ]
        return [*events, self.event("response.output_item.done", output_index=index, item=item)]

    def _message_begun(self) -> list[bytes]:
        if self._begun:
            return []
        self._begun = True
        item = _message_item(self._call_id, "", cut=False)
        place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        (part,) = item["content"]
        empty = item | {"content": [], "status": "in_progress"}
        return [
            self.event("response.output_item.added", output_index=0, item=empty),
            self.event("response.content_part.added", **place, part=part),
        ]


def _head(asked: ResponsesRequest, plan: ChatPlan, call_id: str, created: float) -> dict[str, Any]:
    text = asked.text.model_dump(by_alias=True, exclude_none=True) if asked.text else {}
    choice = asked.tool_choice or "auto"
    return {
        "id": spelled(RESPONSE, call_id),
        "object": "response",
        "created_at": int(created),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": asked.instructions,
        "max_output_tokens": asked.max_output_tokens,
        "metadata": asked.metadata or {},
        "model": plan.request.model,
        "output": [],
        "parallel_tool_calls": asked.parallel_tool_calls is not False,
        "previous_response_id": None,
        "store": False,
        "temperature": asked.temperature,
        "text": {"format": {"type": "text"}} | text,
        "tool_choice": choice if isinstance(choice, str) else choice.model_dump(),
        "tools": [tool.model_dump() for tool in asked.tools or []],
        "top_p": asked.top_p,
        "truncation": "disabled",
        "usage": None,
    }


def _message_item(call_id: str, text: str, *, cut: bool) -> dict[str, Any]:
    return {
        "id": spelled(MESSAGE, call_id),
        "type": "message",
        "status": "incomplete" if cut else "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
    }


def _call_item(call_id: str, index: int, call: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"{spelled('fc_', call_id)}_{index}",
        "type": "function_call",
        "status": "completed",
        "call_id": call["id"],
        "name": call["function"]["name"],
        "arguments": call["function"]["arguments"],
    }


def _usage(record: CallRecord) -> dict[str, Any]:
    counted = usage(record)
    return {
        "input_tokens": counted["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": counted["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": counted["total_tokens"],
    }
