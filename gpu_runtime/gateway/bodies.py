"""A body as a checked request of its dialect, with its labels, and where what a chat request has
stands in the request that it was made of: what is refused late, in a template say, is named as the
client sent it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel
from starlette.requests import Request

from gpu_runtime.generation.labels import Table, ToolTypes, header_labels, take_labels, take_tools
from gpu_runtime.generation.parsing import body_of, checked
from gpu_runtime.rendering.messages import AssistantMessage, Message

R = TypeVar("R", bound=BaseModel)
PATH = re.compile(r"\w+(?:\.\w+)*")  # as refusals write one in a sentence


class Places:
    """The client's own path of each part of a chat request that has another."""

    def __init__(self) -> None:
        self._own: dict[str, str] = {}
        self._ends: set[str] = set()

    def add(self, path: str, own: str, *, is_whole: bool = False) -> None:
        """``path`` is ``own`` in what the client sent; with ``is_whole`` so is all that is in
        it."""
        self._own[path] = own
        if is_whole:
            self._ends.add(path)

    def own(self, path: str) -> str:
        """The client's path of ``path``: its longest beginning that is known is replaced."""
        head, rest = path, ""
        while head and head not in self._own:
            head, _, last = head.rpartition(".")
            rest = f".{last}{rest}"
        if not head:
            return path
        return self._own[head] + ("" if head in self._ends else rest)

    def said(self, sentence: str) -> str:
        """``sentence`` with the client's paths."""
        return PATH.sub(lambda found: self.own(found[0]), sentence)


def places_of(request: Request) -> Places:
    """Those of a request; refusals are written with them."""
    if not hasattr(request.state, "places"):
        request.state.places = Places()
    places: Places = request.state.places
    return places


@dataclass(frozen=True)
class Dialect:
    """What bodies of a dialect have beside the fields of its requests: ``labels``, the ``headers``
    that are labels too, and the types of tools that are no functions or are left out. ``show`` puts
    functions into the places of its own tools, and returns what was sent as labels.
    """

    labels: Table
    headers: tuple[str, ...] = ()
    tools: ToolTypes | None = None
    show: Callable[[dict[str, Any]], dict[str, Any]] = lambda body: {}

    def read(self, request: Request, body: bytes, kind: type[R]) -> tuple[R, dict[str, Any]]:
        """The request in ``body`` and its labels by path; the places of tools that stay. Raises
        BadRequest, naming what is wrong and where.
        """
        sent = body_of(body)
        of_tools = self.show(sent) | self._tools_take(request, sent)
        labels = take_labels(sent, self.labels)
        asked = checked(sent, kind)
        return asked, labels | header_labels(request.headers, self.headers) | of_tools

    def _tools_take(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        if self.tools is None:
            return {}
        sent = body.get("tools")
        left_out, places = take_tools(body, self.tools), places_of(request)
        if left_out:
            left = iter(enumerate(sent or []))
            for number, tool in enumerate(body["tools"]):
                at = next(n for n, each in left if each is tool)
                places.add(f"tools.{number}", f"tools.{at}")
        return left_out


def of_thoughts(messages: Sequence[Message], places: Places) -> None:
    """Add under which of their names the thoughts of chat ``messages`` came."""
    for number, message in enumerate(messages):
        if isinstance(message, AssistantMessage) and (name := message.thoughts_field):
            at = f"messages.{number}"
            places.add(f"{at}.reasoning_content", f"{at}.{name}")
