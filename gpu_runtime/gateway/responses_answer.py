"""A call as the Responses dialect answers it: one object of output items, or the events in which they come to be."""

from collections.abc import AsyncGenerator
from typing import Any

from gpu_runtime.gateway.answer_reader import CallPiece
from gpu_runtime.gateway.call_ids import MESSAGE, RESPONSE, spelled
from gpu_runtime.gateway.chat_answer import policy_version, usage
from gpu_runtime.gateway.live_call import LiveCall
from gpu_runtime.gateway.plan import ChatPlan
from gpu_runtime.gateway.response_events import ResponseEvents
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
        items.insert(0, _message_item(record.id, content))
    if cut:
        items[-1]["status"] = "incomplete"
    return head | {
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": items,
        "usage": _usage(record),
        "policy_version": policy_version(record),
    }


async def response_events(
    asked: ResponsesRequest, plan: ChatPlan, live: LiveCall, created: float
) -> AsyncGenerator[bytes, None]:
    """The answer in events; the last one is sent once the call is on disk. Raises the call's error."""
    events = ResponseEvents(live.id)
    head = _head(asked, plan, live.id, created)
    yield events.event("response.created", response=head)
    yield events.event("response.in_progress", response=head)
    reader = plan.reader()
    async for _, delta in live.read():
        text, calls = reader.more(delta.text, delta.token_ids_T)
        for event in events.text(text):
            yield event
        for piece in calls:
            if piece.name is not None:
                for event in events.begin(_call_item(live.id, piece.index, _call(plan, live.id, piece))):
                    yield event
            yield events.arguments(piece.arguments)
    assert live.record is not None, "read() ends with a record or raises"
    answer = live.record.completions[0]
    for event in events.text(reader.rest(answer.message["content"] or "")):
        yield event
    end = response(asked, plan, live.record) | {"created_at": head["created_at"]}
    for event in events.rest(end["output"]):
        yield event
    yield events.event(f"response.{end['status']}", response=end)


def _call(plan: ChatPlan, call_id: str, piece: CallPiece) -> dict[str, Any]:
    return plan.call_head(call_id, 0, piece.index, piece.name or "")


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


def _message_item(call_id: str, text: str) -> dict[str, Any]:
    return {
        "id": spelled(MESSAGE, call_id),
        "type": "message",
        "status": "completed",
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
