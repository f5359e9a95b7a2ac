"""A body of JSON as a checked request, and what is wrong with it by the client's own names."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from gpu_runtime.refusals import BadRequest

# Parts of messages by what a model of text lacks.
SENSES = {
    **dict.fromkeys(("image", "image_url", "input_image", "video_url", "input_video"), "vision"),
    **dict.fromkeys(("input_audio", "audio", "audio_url"), "hearing"),
    **dict.fromkeys(("file", "input_file", "document"), "reader of files"),
}
R = TypeVar("R", bound=BaseModel)


def parse_request(body: bytes, kind: type[R], neutral_values: Mapping[str, tuple[Any, ...]]) -> R:
    """The request in ``body``. Raises BadRequest, naming what is wrong and where."""
    value = _json(body)
    if not isinstance(value, dict):
        raise BadRequest("the body must be a JSON object")
    for name, neutral in neutral_values.items():
        if name in value and value.pop(name) not in (None, *neutral):
            raise _unsupported(name)
    return checked(value, kind)


def checked(value: dict[str, Any], kind: type[R]) -> R:
    """The request that ``value`` is; a null is an absent option. Raises BadRequest."""
    try:
        return kind.model_validate({name: option for name, option in value.items() if option is not None})
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
    # A union reports each of its members. The one that was meant is the one whose type fits; then the deepest.
    errors = error.errors(include_url=False, include_input=False)
    best = max(errors, key=lambda entry: (not entry["type"].endswith("_type"), len(entry["loc"])))
    field = _path(best["loc"], body)
    if best["type"] == "extra_forbidden":
        return _unsupported(field)
    if missing := _missing_sense(field, body):
        return BadRequest(f"{field}: this model has no {missing}", hint="Send text parts alone.", param=field)
    message = best["msg"].removeprefix("Value error, ")
    return BadRequest(f"{field}: {message}" if field else message, param=field or None)


def _unsupported(name: str) -> BadRequest:
    return BadRequest(
        f"the option {name} is not supported",
        hint="Leave it out, so that nothing is ignored; the server's manual lists every option of requests.",
        param=name,
        openai_code="unsupported_parameter",
    )


def _missing_sense(field: str, value: Any) -> str | None:
    """What a model would need for the part of a message that ``field`` names, or is inside of."""
    found = None
    for part in field.split("."):
        value = value[int(part)] if isinstance(value, list) else value.get(part) if isinstance(value, dict) else None
        if isinstance(value, dict):
            found = SENSES.get(str(value.get("type"))) or found
    return found


def _path(loc: tuple[int | str, ...], value: Any) -> str:
    """``loc`` without the names of union members, which are ours and mean nothing to a client."""
    path = []
    for index, part in enumerate(loc):
        inside = part in value if isinstance(value, dict) else isinstance(value, list) and isinstance(part, int)
        if inside:
            value = value[part]
        if inside or (isinstance(value, dict) and index == len(loc) - 1 and isinstance(part, str) and "[" not in part):
            path.append(str(part))
    return ".".join(path)
