"""Labels: fields that cannot change the answer here. Each dialect has a table of them.

A labelled field is taken out of the body before it is checked, kept with the call under ``labels``,
and shown with it. A field that acts for some of its values is a label for the others alone: what
would change the answer is refused. Tools that reach no model are left out as labels too.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_runtime.refusals import BadRequest

MAX_KEPT = 4096  # characters of one label's JSON that are kept
MAX_DIFFERENT = 16  # values of one label of a list's items that are kept
LABELS = "labels"  # among a call's options
LEAVE_OUT = (
    "Leave it out, so that nothing is ignored; the server's manual lists every option of requests."
)
RUN_BY = (None, "client", "server")  # a tool's ``execution``


@dataclass(frozen=True)
class Label:
    """One line of a table: ``tools.*.strict`` is that field of each tool.

    ``values``: those that change nothing, or a test of them; None takes every value.
    ``instead``: what the client does about another value. ``stays``: the body keeps it, because it
    is sent back or acts too.
    """

    path: str
    source: str
    values: tuple[Any, ...] | Callable[[Any], bool] | None = None
    instead: str = LEAVE_OUT
    stays: bool = False

    def takes(self, value: Any) -> bool:
        """Whether ``value`` changes nothing."""
        if self.values is None or value is None:
            return True
        return self.values(value) if callable(self.values) else value in self.values


Table = tuple[Label, ...]


def take_labels(body: dict[str, Any], table: Table) -> dict[str, Any]:
    """The labels of ``body`` by path, taken out of it. Raises BadRequest for a value that would
    change the answer."""
    found: dict[str, list[Any]] = {}
    for label in table:
        for holder, name, path in list(_places(body, label.path.split("."), "")):
            value = holder[name] if label.stays else holder.pop(name)
            if not label.takes(value):
                raise unsupported(path, label.instead)
            if value is not None:
                found.setdefault(label.path, []).append(value)
    return {path: _kept(values, is_of_items="*" in path) for path, values in found.items()}


def header_labels(headers: Mapping[str, str], names: Iterable[str]) -> dict[str, Any]:
    """Headers that are labels, by name."""
    return {f"header {name}": headers[name][:MAX_KEPT] for name in names if name in headers}


@dataclass(frozen=True)
class ToolTypes:
    """The types of a dialect's tools: ``known`` reach the model, those that begin with one of
    ``optional`` are left out beside others. ``switches`` say what the client does about the rest,
    by the beginning of a type's name. A type whose tools differ by who runs them is followed by
    that (``execution``)."""

    known: tuple[str, ...]
    switches: Mapping[str, str]
    optional: tuple[str, ...] = ()


def take_tools(body: dict[str, Any], types: ToolTypes) -> dict[str, Any]:
    """What is left out of the tools of ``body``, as a label. Raises BadRequest for any other that
    is no function."""
    tools = body.get("tools")
    if not isinstance(tools, list):
        return {}
    kinds = [_tool_kind(tool) for tool in tools]
    is_optional = [
        kind not in types.known
        and str(kind).startswith(types.optional)
        and not _is_chosen(body, tool)
        for kind, tool in zip(kinds, tools, strict=True)
    ]
    for number, kind in enumerate(kinds):
        if kind is not None and (runs := tools[number].get("execution")) not in RUN_BY:
            raise BadRequest(
                f"tools.{number}.execution: {str(runs)[:80]!r} is none of client, server",
                param=f"tools.{number}.execution",
                openai_code="invalid_value",
            )
        if kind is None or kind in types.known or (is_optional[number] and not all(is_optional)):
            continue
        hint = next(
            (said for start, said in types.switches.items() if str(kind).startswith(start)), ""
        )
        raise BadRequest(
            f"tools.{number}: a tool of type {str(tools[number].get('type'))[:80]!r} is no function, and nothing here "
            "runs it",
            hint=hint
            or "Send a function with a schema, which your client runs itself, or leave the tool "
            "out.",
            param=f"tools.{number}",
            openai_code="unsupported_parameter",
        )
    if not any(is_optional):
        return {}
    pairs = list(zip(tools, is_optional, strict=True))
    body["tools"] = [tool for tool, leaves in pairs if not leaves]
    return {"tools left out": [_bounded(tool) for tool, leaves in pairs if leaves]}


def unsupported(
    name: str, hint: str = LEAVE_OUT, *, code: str = "unsupported_parameter"
) -> BadRequest:
    """The refusal of an option by its ``name`` in the request."""
    return BadRequest(
        f"the option {name} is not supported",
        hint=hint,
        param=name,
        openai_code=code,
    )


def _tool_kind(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return None
    kind, runs = tool.get("type"), tool.get("execution")
    return kind if runs in (None, "server") else f"{kind} {runs}"


def _is_chosen(body: dict[str, Any], tool: dict[str, Any]) -> bool:
    choice = body.get("tool_choice")
    if not isinstance(choice, dict):
        return False
    return choice.get("type") == tool["type"] or (
        "name" in choice and choice["name"] == tool.get("name")
    )


def _places(value: Any, parts: list[str], before: str) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Where the path ``parts`` leads to inside of ``value``: the object, the field's name and its
    whole path."""
    part, rest = parts[0], parts[1:]
    if part == "*":
        for number, item in enumerate(value if isinstance(value, list) else []):
            yield from _places(item, rest, f"{before}{number}.")
    elif isinstance(value, dict) and part in value:
        if rest:
            yield from _places(value[part], rest, f"{before}{part}.")
        else:
            yield value, part, before + part


def _kept(values: list[Any], *, is_of_items: bool) -> Any:
    different = []
    for value in map(_bounded, values):
        if value not in different:
            different.append(value)
    return different[:MAX_DIFFERENT] if is_of_items else different[0]


def _bounded(value: Any) -> Any:
    text = json.dumps(value)
    return value if len(text) <= MAX_KEPT else text[:MAX_KEPT]
