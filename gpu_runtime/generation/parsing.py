"""A body of JSON as a checked request, and what is wrong with it by the client's own names."""

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gpu_runtime.generation.labels import unsupported
from gpu_runtime.refusals import BadRequest

INVALID = "invalid_value"
BOUNDS = {"greater_than": "below_min", "greater_than_equal": "below_min"} | {
    "less_than": "above_max",
    "less_than_equal": "above_max",
}
LENGTHS = {
    "too_long": "array_above_max_length",
    "too_short": "array_below_min_length",
    "string_too_long": "string_above_max_length",
    "string_too_short": "string_below_min_length",
}
MISSING = ("missing", "union_tag_not_found")
# Fields of OpenAI's and Anthropic's own references that nothing here acts on; any other is unknown.
UNSUPPORTED = frozenset(
    (
        *("audio", "function_call", "functions", "moderation", "web_search_options"),  # chat
        *("conversation", "prompt"),  # Responses; a text completion has a prompt
        *("container", "mcp_servers", "output_format"),  # Messages
    )
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
R = TypeVar("R", bound=BaseModel)


def body_of(body: bytes) -> dict[str, Any]:
    """The JSON object that ``body`` is. Raises BadRequest."""
    value = _json(body)
    if not isinstance(value, dict):
        raise BadRequest("the body must be a JSON object")
    return value


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
    field, code = _path(best["loc"], body, best["type"]), _code_of(best)
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


def _code_of(entry: ErrorDetails) -> str:
    """The code that OpenAI's API has for one error of pydantic's ``ValidationError.errors()``.

    Source: errors of ``POST /v1/chat/completions`` and ``/v1/responses`` of api.openai.com, whose
    ``code`` goes with the ``param``; OpenAI's reference lists no table of them.
    """
    kind, context = entry["type"], entry.get("ctx", {})
    if kind == "extra_forbidden":
        is_known = len(entry["loc"]) == 1 and entry["loc"][0] in UNSUPPORTED
        return "unsupported_parameter" if is_known else "unknown_parameter"
    if kind in MISSING:
        return "missing_required_parameter"
    if (side := BOUNDS.get(kind)) is not None:
        bound = next((context[name] for name in ("ge", "gt", "le", "lt") if name in context), 0)
        return f"{'decimal' if isinstance(bound, float) else 'integer'}_{side}_value"
    if kind in LENGTHS:
        is_empty = kind == "too_short" and context.get("actual_length") == 0
        return "empty_array" if is_empty else LENGTHS[kind]
    return "invalid_type" if kind.endswith(("_type", "_from_float")) else INVALID
