"""Bodies and queries become wire types: JSON as it is defined and no more, every problem by the
name of its field.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from inspect import iscoroutinefunction
from itertools import islice
from typing import Any, TypeVar, get_origin

from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.decorators import sync_and_async_middleware
from pydantic import BaseModel, ConfigDict, ValidationError

from api.rest.errors import MAX_FIELDS, UNKNOWN, error_response, fields_error
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
# How many values a body has is counted before it is parsed: a list in a list takes three bytes of a
# body and seventy of memory, and a parser takes a process's whole attention. These are commas and
# quotation marks: a prompt of 128,000 token ids has a quarter of it
MAX_VALUES = 500_000
MAX_NESTED = 50_000  # objects and lists
# One that has no end goes to the body's: no place is looked at twice.
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+\\?+(?:"|\Z)', re.DOTALL)
NUL = "\0"
NUL_PROBLEM = "has a NUL character, which no database keeps"

Model = TypeVar("Model", bound=BaseModel)


class Query(BaseModel):
    """Base of the types of queries; by itself that of a route without parameters."""

    model_config = ConfigDict(extra="forbid")


def body_read(body: bytes, model: type[Model], *, limit_bytes: int) -> Model:
    """A request's body as a wire type, whatever its Content-Type says. Raises InvalidRequest.

    No NaN, no infinity, no text that UTF-8 or a database cannot carry.
    """
    if not body:
        raise fields_error([{"field": "", "problem": "Field required"}])
    most = MAX_MEMBERS_LARGE if limit_bytes > MAX_BODY_BYTES else MAX_MEMBERS
    return _validated(json_read(body, most), model)


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


def values_check(body: bytes) -> None:
    """Raises InvalidRequest for a body that holds too many values to be parsed."""
    if body.count(b",") + body.count(b'"') > MAX_VALUES:
        raise _too_many(f"{MAX_VALUES} values")
    # text has brackets too
    if _nested(body) > MAX_NESTED and _nested(STRING.sub(b"", body)) > MAX_NESTED:
        raise _too_many(f"{MAX_NESTED} objects and lists")


def _nested(body: bytes) -> int:
    return body.count(b"[") + body.count(b"{")


def _too_many(what: str) -> InvalidRequest:
    return InvalidRequest(
        f"The request's body has more than {what}.",
        hint="Send less at once.",
        details={"fields": [{"field": "", "problem": f"has more than {what}"}]},
    )


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
    return _validated(values, model)


def _validated(data: Any, model: type[Model]) -> Model:
    """Raises InvalidRequest; it names the fields that do not fit: ``config.grpo_n``."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise fields_error(_fields(error)) from None


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


# -- What browsers send to django-allauth's JSON endpoints, read as strictly as a body of REST -----

ACCOUNTS = "/_allauth/"


@sync_and_async_middleware
def account_bodies(get_response: Callable) -> Callable:
    """Middleware that refuses a body that is no JSON with 400.

    allauth reads it with Python's own reader, whose errors for a body that is nested too deeply, or
    has a number too long, are no ValueError that allauth knows, and it hands on text that neither a
    hash nor a database takes. Its views then fail, and each failure is an error with its stack in
    the log that a stranger writes as often as they like.
    """
    if iscoroutinefunction(get_response):

        async def respond_async(request: HttpRequest) -> HttpResponse:
            return _account_refusal(request) or await get_response(request)

        return respond_async

    def respond(request: HttpRequest) -> HttpResponse:
        return _account_refusal(request) or get_response(request)

    return respond


def _account_refusal(request: HttpRequest) -> HttpResponse | None:
    if not request.path.startswith(ACCOUNTS) or not request.body:
        return None
    try:
        json_read(request.body, MAX_MEMBERS)
    except InvalidRequest as refusal:
        return error_response(request, refusal)
    return None
