"""Bodies and queries become wire types: JSON as it is defined and no more, every problem by the
name of its field.
"""

import json
import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar, get_origin

from django.http import QueryDict
from pydantic import BaseModel, ConfigDict, ValidationError
from rest_framework.parsers import BaseParser

from api.rest.errors import MAX_FIELDS, UNKNOWN, fields_error
from api.rest.json_bounds import values_check
from console.errors import InvalidRequest
from console.server.request_limits import MAX_BODY_BYTES

# Names in all objects of a body together. Each unknown one costs time to refuse.
MAX_MEMBERS, MAX_MEMBERS_LARGE = 1_000, 50_000
# of values inside each other: what writes them later, pydantic and databases, has limits of its own
MAX_DEPTH = 100
TOO_DEEP = f"has values more than {MAX_DEPTH} deep in each other"
MAX_INTEGER = 2**53 - 1  # beyond it readers of JSON differ, and a database column may not hold it
# of a time that is asked for: a day more or less, and any zone, is still a time
YEARS = range(1970, 9999)
NUL = "\0"
NUL_PROBLEM = "has a NUL character, which no database keeps"

Model = TypeVar("Model", bound=BaseModel)


class Query(BaseModel):
    """Base of the types of queries; by itself that of a route without parameters."""

    model_config = ConfigDict(extra="forbid")


class StrictJsonParser(BaseParser):
    """No NaN, no infinity, no text that UTF-8 or a database cannot carry. The Content-Type is not
    looked at.
    """

    media_type = "application/json"

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """The body. Raises InvalidRequest."""
        body = stream.read()
        if not body:
            raise fields_error([{"field": "", "problem": "Field required"}])
        route = getattr((parser_context or {}).get("view"), "route", None)
        return json_read(
            body,
            MAX_MEMBERS_LARGE
            if route is not None and route.limit_bytes > MAX_BODY_BYTES
            else MAX_MEMBERS,
        )


def json_read(body: bytes, most: int) -> Any:
    """The value of a body whose objects have at most ``most`` names in all. Raises
    InvalidRequest.
    """
    values_check(body)
    try:
        data = json.loads(body.decode(), object_pairs_hook=_Members(most))
    except RecursionError:  # how deep it reads depends on how deep its caller stands
        raise fields_error([{"field": "", "problem": TOO_DEEP}]) from None
    except ValueError as error:
        raise InvalidRequest(
            "The request's body cannot be read.",
            hint="Send one JSON object in UTF-8.",
            details={"fields": [{"field": "", "problem": f"not JSON: {error}"}]},
        ) from None
    if problems := list(islice(_problems(data), MAX_FIELDS + 1)):
        raise fields_error(problems)
    return data


class _Members:
    """Makes the objects of a body and counts their names: past the limit parsing ends."""

    def __init__(self, most: int) -> None:
        self.most, self.count = most, 0

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self.count += len(pairs)
        if self.count > self.most:
            raise fields_error(
                [{"field": "", "problem": f"has more than {self.most} names in its objects"}]
            )
        return dict(pairs)


def body_validate(data: Any, model: type[Model]) -> Model:
    """Parsed JSON as a wire type. Raises InvalidRequest; it names the fields that do not fit:
    ``config.grpo_n``.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise fields_error(_fields(error)) from None


def query_read(given: QueryDict, model: type[Model]) -> Model:
    """The query string as a wire type. Raises InvalidRequest for what is unknown, doubled or does
    not fit.
    """
    if not given and model is Query:
        return model()
    lists = {
        name for name, field in model.model_fields.items() if get_origin(field.annotation) is list
    }
    values = {name: given.getlist(name) if name in lists else given[name] for name in given}
    problems = [
        {"field": name, "problem": "given more than once"}
        for name in sorted(model.model_fields.keys() - lists)
        if len(given.getlist(name)) > 1
    ]
    problems += [
        {"field": name, "problem": NUL_PROBLEM}
        for name in sorted(model.model_fields.keys() & given.keys())
        if NUL in "".join(given.getlist(name))
    ]
    if problems:
        raise fields_error(problems)
    return body_validate(values, model)


def _fields(error: ValidationError) -> list[dict[str, str]]:
    return [
        {
            "field": ".".join(str(part) for part in problem["loc"]),
            "problem": UNKNOWN
            if problem["type"] == "extra_forbidden"
            else problem["msg"].removeprefix("Value error, "),  # pydantic's own words
        }
        for problem in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def _problems(data: Any) -> Iterator[dict[str, str]]:
    pending = [("", data, 0)]  # a list instead of recursion: nesting is the client's choice
    while pending:
        path, value, depth = pending.pop()
        if depth > MAX_DEPTH:
            yield {"field": path.partition(".")[0], "problem": TOO_DEEP}
            return
        if isinstance(value, dict):
            pending += [
                (f"{path}.{key}" if path else key, inner, depth + 1) for key, inner in value.items()
            ]
            pending += [
                (f"the name {key!a}", key, depth)
                for key in value
                if NUL in key or not key.isascii()
            ]
        elif isinstance(value, list):
            pending += [(f"{path}.{index}", inner, depth + 1) for index, inner in enumerate(value)]
        elif isinstance(value, int) and abs(value) > MAX_INTEGER:
            yield {
                "field": path,
                "problem": f"is beyond {MAX_INTEGER}, the largest whole number that JSON keeps "
                "exact",
            }
        elif isinstance(value, float) and not math.isfinite(value):
            yield {"field": path, "problem": f"{value} is not a finite number"}
        elif isinstance(value, str) and NUL in value:
            yield {"field": path, "problem": NUL_PROBLEM}
        elif isinstance(value, str) and not value.isascii() and not _encodes(value):
            yield {"field": path, "problem": "half of a surrogate pair, which is no character"}


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
