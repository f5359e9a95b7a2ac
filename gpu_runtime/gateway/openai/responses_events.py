"""The events of one streamed response: numbered, and each item begun, filled and done in its
turn.
"""

import json
from typing import Any

from gpu_runtime.journal.call_ids import MESSAGE, with_prefix

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
        begun = [] if self._is_open("message") else self.begin(_message(self._call_id))
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
                events += self.begin(_message(self._call_id))
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


def reasoning_item(call_id: str, thoughts: str) -> Item:
    """The thoughts of an answer."""
    content = [{"type": "reasoning_text", "text": thoughts}]
    return {"id": with_prefix("rs_", call_id), "type": "reasoning", "status": "completed", "summary": [],
            "content": content}  # fmt: skip


def _message(call_id: str) -> Item:
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    return {"id": with_prefix(MESSAGE, call_id), "type": "message", "role": "assistant", "status": "completed",
            "content": [part]}  # fmt: skip
