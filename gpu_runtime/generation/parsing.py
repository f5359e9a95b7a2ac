"""A body of JSON as a checked request with its labels, and what is wrong with it by the client's
own names.

Labels are fields that cannot change the answer here: each dialect has a table of them. A labelled
field is taken out of the body before it is checked, kept with the call under ``labels``, and shown
with it. A field that acts for some of its values is a label for the others alone: what would change
the answer is refused.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from gpu_runtime.generation.openai_codes import code_of
from gpu_runtime.refusals import BadRequest

MAX_KEPT = 4096  # characters of one label's JSON that are kept
MAX_DIFFERENT = 16  # values of one label of a list's items that are kept
LABELS = "labels"  # among a call's options
LEAVE_OUT = (
    "Leave it out, so that nothing is ignored; the server's manual lists every option of requests."
)
# Parts of messages by what a model of text lacks.
SENSES = {
    **dict.fromkeys(("image", "image_url", "input_image", "video_url", "input_video"), "vision"),
    **dict.fromkeys(("input_audio", "audio", "audio_url"), "hearing"),
    **dict.fromkeys(("file", "input_file", "document"), "reader of files"),
}
# What a client does about parts and items that are no text of a conversation, by their types.
PARTS = {
    **dict.fromkeys(("additional_tools", "tool_addition"), "Send the tools among tools."),
    "tool_removal": "Leave it out, and the tool out of tools.",
    **dict.fromkeys(
        ("compaction", "compaction_summary", "compaction_trigger", "context_compaction"),
        "Nothing is taken out of a conversation here: send the whole one, or its summary as text.",
    ),
}
ANY_PART = "Send what it says as text, or leave it out."
DISCRIMINATOR = re.compile(r"'(\w+)'")  # as pydantic writes the field by which kinds differ
RUN_BY = (None, "client", "server")  # a tool's ``execution``
R = TypeVar("R", bound=BaseModel)


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


@dataclass(frozen=True)
class ToolTypes:
    """The types of a dialect's tools: ``known`` reach the model, those that begin with one of
    ``optional`` are left out beside others. ``switches`` say what the client does about the rest,
    by the beginning of a type's name. A type whose tools differ by who runs them is followed by
    that (``execution``)."""

    known: tuple[str, ...]
    switches: Mapping[str, str]
    optional: tuple[str, ...] = ()


def _tool_kind(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return None
    kind, runs = tool.get("type"), tool.get("execution")
    return kind if runs in (None, "server") else f"{kind} {runs}"


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


def body_of(body: bytes) -> dict[str, Any]:
    """The JSON object that ``body`` is. Raises BadRequest."""
    value = _json(body)
    if not isinstance(value, dict):
        raise BadRequest("the body must be a JSON object")
    return value


def parse_request(
    body: bytes | dict[str, Any], kind: type[R], table: Table
) -> tuple[R, dict[str, Any]]:
    """The request in ``body`` and its labels by path. Raises BadRequest, naming what is wrong and
    where."""
    value = body_of(body) if isinstance(body, bytes) else body
    labels = take_labels(value, table)
    return checked(value, kind), labels


def checked(value: dict[str, Any], kind: type[R]) -> R:
    """The request that ``value`` is; a null is an absent option. Raises BadRequest."""
    try:
        return kind.model_validate(
            {name: option for name, option in value.items() if option is not None}
        )
    except ValidationError as error:
        raise _bad_request(error, value) from None


def _json(body: bytes) -> Any:
    try:
        value = json.loads(body.decode("utf-8-sig"), parse_constant=_no_constant)
        if b"\\u" in body:  # an escape can make half a surrogate pair, which is no text
            json.dumps(value, ensure_ascii=False).encode()
        elif isinstance(value, dict) and "tools" in value:
            json.dumps(value["tools"])  # what can be read can be nested too deeply to be written
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON in UTF-8: {str(error)[:200]}") from None
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _bad_request(error: ValidationError, body: dict[str, Any]) -> BadRequest:
    # A union reports each of its members. The one that was meant is the one whose type fits; then
    # the deepest.
    errors = error.errors(include_url=False, include_input=False)
    best = max(errors, key=lambda entry: (not entry["type"].endswith("_type"), len(entry["loc"])))
    field, code = _path(best["loc"], body, best["type"]), code_of(best)
    if best["type"] == "extra_forbidden":
        return unsupported(field, code=code)
    if missing := _missing_sense(field, body):
        return BadRequest(
            f"{field}: this model has no {missing}",
            hint="Send text parts alone.",
            param=field,
            openai_code=code,
        )
    message = best["msg"].removeprefix("Value error, ")
    if best["type"] == "missing" and _is_null(field, body):
        message = "it cannot be null"
    if not field:  # what does not fit together: the option is named first
        option = message.split(" ")[0]
        return BadRequest(message, param=option if option in body else None, openai_code=code)
    context = best.get("ctx", {})
    if (discriminator := context.get("discriminator")) is not None:
        named = DISCRIMINATOR.fullmatch(discriminator)
        field = f"{field}.{named[1] if named else 'type'}"
        if "tag" in context:  # pydantic's own words may name a function of ours
            message = f"{context['tag'][:80]!r} is none of {context['expected_tags']}"
    return BadRequest(
        f"{field}: {message}", hint=_part_hint(field, body), param=field, openai_code=code
    )


def _part_hint(field: str, body: dict[str, Any]) -> str:
    """What to do about a part of a message, or an item, whose type ``field`` is."""
    holder, _, name = field.rpartition(".")
    if name != "type" or not field.startswith(("messages.", "input.")):
        return ""
    *_, part = _along(holder, body)
    if not (isinstance(part, dict) and "type" in part):
        return ""
    return PARTS.get(str(part["type"]), ANY_PART)


def _missing_sense(field: str, value: Any) -> str | None:
    """What a model would need for the part of a message that ``field`` names, or is inside of."""
    found = None
    for part in _along(field, value):
        if isinstance(part, dict):
            found = SENSES.get(str(part.get("type"))) or found
    return found


def _is_null(field: str, body: dict[str, Any]) -> bool:
    """Whether ``field`` is there without a value, which Strict takes out."""
    holder, _, name = field.rpartition(".")
    *_, found = _along(holder, body) if holder else [body]
    return isinstance(found, dict) and name in found


def _along(field: str, value: Any) -> Iterator[Any]:
    """The values on the way that ``field`` leads into ``value``."""
    for part in field.split("."):
        value = (
            value[int(part)]
            if isinstance(value, list)
            else value.get(part)
            if isinstance(value, dict)
            else None
        )
        yield value


def _path(loc: tuple[int | str, ...], value: Any, fault: str) -> str:
    """``loc`` without the names of union members, which are ours and mean nothing to a client. What
    is not there can be its end alone, and only where that is the ``fault``."""
    path = []
    for index, part in enumerate(loc):
        inside = (
            part in value and not (fault == "missing" and _is_tag(part, value, loc[index + 1 :]))
            if isinstance(value, dict)
            else isinstance(value, list) and isinstance(part, int)
        )
        if inside:
            value = value[part]
        if inside or (
            isinstance(value, dict)
            and index == len(loc) - 1
            and isinstance(part, str)
            and fault == "missing"
        ):
            path.append(str(part))
    return ".".join(path)


def _is_tag(part: int | str, value: dict[str, Any], rest: tuple[int | str, ...]) -> bool:
    """Whether ``part`` is the kind of ``value``, which has a field of that name too: what is said
    to be missing is there, as in a tool of chat that is sent to Responses.
    """
    inside = value[str(part)]
    return (
        value.get("type") == part
        and isinstance(inside, dict)
        and rest[:1] == rest != ()
        and (rest[0] in inside)
    )


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
