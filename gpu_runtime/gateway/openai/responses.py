"""A call in the Responses dialect: one object of output items, or the events of a stream of
them.
"""

import json
from collections.abc import AsyncGenerator
from typing import Any

from gpu_runtime.gateway.openai.chat import policy_version, thought_tokens, token_logprobs, usage
from gpu_runtime.gateway.openai.responses_items import (
    call_item,
    message_item,
    output_items,
    reasoning_item,
)
from gpu_runtime.gateway.openai.responses_requests import ResponsesRequest
from gpu_runtime.gateway.openai.responses_tools import NAMESPACES
from gpu_runtime.generation.call_stream import CallStream
from gpu_runtime.generation.chat_prompt import PreparedChat
from gpu_runtime.journal.records import RESPONSE, CallRecord, Completion, with_prefix
from gpu_runtime.rendering.calls.pieces import CallPiece
from gpu_runtime.rendering.marks import tokens_until


def response(asked: ResponsesRequest, prepared: PreparedChat, record: CallRecord) -> dict[str, Any]:
    """The response body of a request that does not stream, from the recorded call."""
    head = _head(asked, prepared, record.id, record.begun_at)
    answer = record.completions[0]
    cut = answer.finish_reason == "length"
    items = output_items(record)
    if cut and items:
        items[-1]["status"] = "incomplete"
    if asked.wants_logprobs:
        for part in (
            part for item in items if item["type"] == "message" for part in item["content"]
        ):
            part["logprobs"] = _logprobs(prepared, answer, part["text"])
    return head | {
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": items,
        "usage": _usage(prepared, record),
        "policy_version": policy_version(record),
    }


async def response_events(
    asked: ResponsesRequest, prepared: PreparedChat, live: CallStream, created: float
) -> AsyncGenerator[bytes, None]:
    """The answer in events; the last one is sent once the call is on disk. Raises the call's
    error.
    """
    events = ResponseEvents(live.id)
    head = _head(asked, prepared, live.id, created)
    yield events.event("response.created", response=head)
    yield events.event("response.in_progress", response=head)
    reader, apart = prepared.form.reader(), prepared.notes.get(NAMESPACES, {})
    async for _, delta in live.read():
        thoughts, text, calls = reader.more(delta.text, delta.token_ids_T)
        for event in [*events.thoughts(thoughts), *events.text(text)]:
            yield event
        # their input is decoded once it is whole, and items keep their order
        if asked.sends_calls_whole:
            calls = []
        for piece in calls:
            if piece.name is not None:
                for event in events.begin(
                    call_item(live.id, piece.index, _call(prepared, live.id, piece), apart)
                ):
                    yield event
            yield events.arguments(piece.arguments)
    assert live.record is not None, "read() ends with a record or raises"
    for piece in [] if asked.sends_calls_whole else reader.close():
        yield events.arguments(piece.arguments)
    answer = live.record.completions[0]
    thoughts = reader.rest_of_thoughts(answer.message.get("reasoning_content", ""))
    for event in [
        *events.thoughts(thoughts),
        *events.text(reader.rest(answer.message["content"] or "")),
    ]:
        yield event
    end = response(asked, prepared, live.record) | {"created_at": head["created_at"]}
    for event in events.rest(end["output"]):
        yield event
    yield events.event(f"response.{end['status']}", response=end)


def _call(prepared: PreparedChat, call_id: str, piece: CallPiece) -> dict[str, Any]:
    return prepared.form.call_head(call_id, 0, piece.index, piece.name or "", piece.id)


def _head(
    asked: ResponsesRequest, prepared: PreparedChat, call_id: str, created: float
) -> dict[str, Any]:
    text = asked.text.model_dump(by_alias=True, exclude_none=True) if asked.text else {}
    choice = asked.tool_choice or "auto"
    return {
        "id": with_prefix(RESPONSE, call_id),
        "object": "response",
        "created_at": int(created),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": asked.instructions,
        "max_output_tokens": asked.max_output_tokens,
        "metadata": asked.metadata or {},
        "model": prepared.request.model,
        "output": [],
        "parallel_tool_calls": asked.parallel_tool_calls is not False,
        "max_tool_calls": asked.max_tool_calls,
        "previous_response_id": asked.previous_response_id,
        "reasoning": asked.reasoning.model_dump(exclude_none=True) if asked.reasoning else {},
        "store": asked.store is not False,
        "temperature": asked.temperature,
        "text": {"format": {"type": "text"}} | text,
        "tool_choice": choice if isinstance(choice, str) else choice.model_dump(),
        "tools": [tool.model_dump() for tool in asked.tools or []],
        "top_p": asked.top_p,
        "top_logprobs": asked.top_logprobs or 0,
        "truncation": asked.truncation or "disabled",
        "usage": None,
    }


def _logprobs(prepared: PreparedChat, answer: Completion, text: str) -> list[dict[str, Any]]:
    """Of the tokens that stand for ``text``, the message's part of the answer."""
    decode, ids = prepared.renderer.decode, answer.token_ids_T
    thoughts = answer.message.get("reasoning_content") or ""
    start = max(0, answer.text.find(text, max(0, answer.text.find(thoughts)) + len(thoughts)))
    first = tokens_until(decode, ids, start + 1) - 1
    end = tokens_until(decode, ids, start + len(text))
    return token_logprobs(prepared.renderer, answer)["content"][first:end] if text else []


def _usage(prepared: PreparedChat, record: CallRecord) -> dict[str, Any]:
    counted = usage(record)
    return {
        "input_tokens": counted["prompt_tokens"],
        "input_tokens_details": counted["prompt_tokens_details"],
        "output_tokens": counted["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": thought_tokens(prepared, record)},
        "total_tokens": counted["total_tokens"],
    }


Item = dict[str, Any]


class ResponseEvents:
    """One item at a time is open: beginning the next one ends it."""

    def __init__(self, call_id: str) -> None:
        self._call_id, self._number = call_id, 0
        self._open: Item | None = None
        self._done = 0  # items; the open one has this index

    def event(self, kind: str, **fields: Any) -> bytes:
        """The next event of the stream."""
        body = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return f"event: {kind}\ndata: {json.dumps(body, separators=(',', ':'))}\n\n".encode()

    def text(self, more: str) -> list[bytes]:
        """More of the message's text, which begins the message."""
        if not more:
            return []
        begun = [] if self._is_open("message") else self.begin(message_item(self._call_id, ""))
        assert self._open is not None, "begun above"
        self._open["content"][0]["text"] += more
        return [
            *begun,
            self.event("response.output_text.delta", **self._part(), delta=more, logprobs=[]),
        ]

    def thoughts(self, more: str) -> list[bytes]:
        """More of the thoughts, which begin the answer."""
        if not more:
            return []
        begun = [] if self._is_open("reasoning") else self.begin(reasoning_item(self._call_id, ""))
        assert self._open is not None, "begun above"
        self._open["content"][0]["text"] += more
        return [*begun, self.event("response.reasoning_text.delta", **self._part(), delta=more)]

    def begin(self, item: Item) -> list[bytes]:
        """``item``, still empty, begins; the one before it is done."""
        before = self.done(self._open) if self._open else []
        self._open = item
        empty = item | {"status": "in_progress"} | ({} if "call_id" in item else {"content": []})
        added = [self.event("response.output_item.added", output_index=self._done, item=empty)]
        if item["type"] == "message":
            added.append(
                self.event("response.content_part.added", **self._part(), part=item["content"][0])
            )
        return [*before, *added]

    def arguments(self, more: str) -> bytes:
        """More of the arguments of the call that is open."""
        assert self._open is not None, "a call is open"
        self._open["arguments"] += more
        return self.event("response.function_call_arguments.delta", **self._position(), delta=more)

    def done(self, item: Item) -> list[bytes]:
        """The open item is whole: it is ``item``."""
        if item["type"] == "reasoning":
            (part,) = item["content"]
            filled = [self.event("response.reasoning_text.done", **self._part(), text=part["text"])]
        elif item["type"] == "message":
            (part,) = item["content"]
            filled = [
                self.event(
                    "response.output_text.done", **self._part(), text=part["text"], logprobs=[]
                ),
                self.event("response.content_part.done", **self._part(), part=part),
            ]
        elif item["type"] == "custom_tool_call":
            filled = [
                self.event(
                    "response.custom_tool_call_input.done", **self._position(), input=item["input"]
                )
            ]
        elif item["type"] != "function_call":  # it comes whole
            filled = []
        else:
            whole = {"name": item["name"], "arguments": item["arguments"]}
            filled = [
                self.event("response.function_call_arguments.done", **self._position(), **whole)
            ]
        last = self.event("response.output_item.done", output_index=self._done, item=item)
        self._open, self._done = None, self._done + 1
        return [*filled, last]

    def rest(self, items: list[Item]) -> list[bytes]:
        """Events for what the stream has not sent yet of ``items``, the whole output."""
        events: list[bytes] = []
        for item in items[self._done :]:
            if self._open is None and item["type"] == "message":
                events += self.begin(message_item(self._call_id, ""))
            elif self._open is None and item["type"] == "reasoning":
                events += self.thoughts(item["content"][0]["text"])
            elif self._open is None and item["type"] == "custom_tool_call":
                events += self.begin(item | {"input": ""})
                more = {"delta": item["input"]}
                events.append(
                    self.event("response.custom_tool_call_input.delta", **self._position(), **more)
                )
            elif self._open is None and item["type"] != "function_call":
                events += self.begin(item)
            elif self._open is None:
                events += [*self.begin(item | {"arguments": ""}), self.arguments(item["arguments"])]
            events += self.done(item)
        return events

    def _is_open(self, kind: str) -> bool:
        return self._open is not None and self._open["type"] == kind

    def _position(self) -> dict[str, Any]:
        assert self._open is not None, "an item is open"
        return {"item_id": self._open["id"], "output_index": self._done}

    def _part(self) -> dict[str, Any]:
        return self._position() | {"content_index": 0}
