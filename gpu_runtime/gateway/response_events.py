"""The events of one streamed response: numbered, and each item begun, filled and done in its turn."""

import json
from typing import Any

from gpu_runtime.gateway.call_ids import MESSAGE, spelled

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
        begun = [] if self._open else self.begin(_message(self._call_id))
        assert self._open is not None, "begun above"
        self._open["content"][0]["text"] += more
        return [*begun, self.event("response.output_text.delta", **self._part(), delta=more, logprobs=[])]

    def begin(self, item: Item) -> list[bytes]:
        """``item``, still empty, begins; the one before it is done."""
        before = self.done(self._open) if self._open else []
        self._open = item
        empty = item | {"status": "in_progress"} | ({"content": []} if item["type"] == "message" else {})
        added = [self.event("response.output_item.added", output_index=self._done, item=empty)]
        if item["type"] == "message":
            added.append(self.event("response.content_part.added", **self._part(), part=item["content"][0]))
        return [*before, *added]

    def arguments(self, more: str) -> bytes:
        """More of the arguments of the call that is open."""
        assert self._open is not None, "a call is open"
        self._open["arguments"] += more
        return self.event("response.function_call_arguments.delta", **self._place(), delta=more)

    def done(self, item: Item) -> list[bytes]:
        """The open item is whole: it is ``item``."""
        if item["type"] == "message":
            (part,) = item["content"]
            filled = [
                self.event("response.output_text.done", **self._part(), text=part["text"], logprobs=[]),
                self.event("response.content_part.done", **self._part(), part=part),
            ]
        else:
            whole = {"name": item["name"], "arguments": item["arguments"]}
            filled = [self.event("response.function_call_arguments.done", **self._place(), **whole)]
        last = self.event("response.output_item.done", output_index=self._done, item=item)
        self._open, self._done = None, self._done + 1
        return [*filled, last]

    def rest(self, items: list[Item]) -> list[bytes]:
        """What the stream has not told yet of ``items``, the whole output."""
        events: list[bytes] = []
        for item in items[self._done :]:
            if self._open is None and item["type"] == "message":
                events += self.begin(_message(self._call_id))
            elif self._open is None:
                events += [*self.begin(item | {"arguments": ""}), self.arguments(item["arguments"])]
            events += self.done(item)
        return events

    def _place(self) -> dict[str, Any]:
        assert self._open is not None, "an item is open"
        return {"item_id": self._open["id"], "output_index": self._done}

    def _part(self) -> dict[str, Any]:
        return self._place() | {"content_index": 0}


def _message(call_id: str) -> Item:
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    return {"id": spelled(MESSAGE, call_id), "type": "message", "role": "assistant", "status": "completed",
            "content": [part]}  # fmt: skip
