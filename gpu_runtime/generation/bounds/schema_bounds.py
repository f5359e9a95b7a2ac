"""How large a JSON schema may be that an answer is held to.

The engine makes a grammar of it before it samples, for seconds to minutes where a schema is huge,
and no call of the session is answered faster meanwhile. The bounds are those that OpenAI documents
for structured outputs (platform documentation, "Supported schemas"), and two on counted
repetitions, which a grammar spells out.
"""

from collections.abc import Iterator
from typing import Any

from gpu_runtime.generation.bounds.pattern_bounds import MAX_NESTED, nested_repeats
from gpu_runtime.refusals import BadRequest

MAX_ENUM_VALUES = 1_000  # in all enums together
MAX_TEXT = 120_000  # characters of names and of values of enums and consts
MAX_PROPERTIES = 5_000
MAX_REPEATS = 10_000
REPEATS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")


def schema_bound(given: Any, *, param: str) -> None:
    """``given`` is a schema, or anything of JSON that has some. Raises BadRequest, naming what is
    too large.
    """
    enums = texts = properties = 0
    for name, value in _members(given):
        if name in ("enum", "const"):
            values = value if isinstance(value, list) else [value]
            enums += len(values)
            texts += sum(len(each) for each in values if isinstance(each, str))
        elif name == "properties" and isinstance(value, dict):
            properties += len(value)
            texts += sum(map(len, value))
        elif name in REPEATS and isinstance(value, int) and value > MAX_REPEATS:
            raise BadRequest(
                f"{name} is {value}: a schema counts to {MAX_REPEATS} at most", param=param
            )
        elif name == "patternProperties" and isinstance(value, dict):
            for pattern in value:
                _pattern_bound(pattern, param)
        elif name == "pattern" and isinstance(value, str):
            _pattern_bound(value, param)
    for count, most, what in (
        (enums, MAX_ENUM_VALUES, "values in its enums"),
        (properties, MAX_PROPERTIES, "properties"),
        (texts, MAX_TEXT, "characters in its names and values"),
    ):
        if count > most:
            raise BadRequest(
                f"the schema has {count} {what}; at most {most} are taken", param=param
            )


def _pattern_bound(pattern: str, param: str) -> None:
    if (repeats := nested_repeats(pattern)) > MAX_NESTED:
        raise BadRequest(
            f"a pattern repeats what repeats, up to {repeats} times; at most {MAX_NESTED} are "
            "taken where no character "
            "stands between the repetitions",
            param=param,
        )


def _members(part: Any) -> Iterator[tuple[str, Any]]:
    """Every name with its value, at any depth."""
    pending = [part]  # a list instead of recursion: nesting is the client's choice
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            yield from value.items()
            pending += value.values()
        elif isinstance(value, list):
            pending += value
