"""One tree, one text form."""

import copy
import inspect
import pickle

import pytest

import tinkerscript
from tinkerscript import errors
from tinkerscript.connection.error_responses import error_from_response
from tinkerscript.wire.errors import ErrorCode

KINDS = [
    k
    for _, k in inspect.getmembers(errors, inspect.isclass)
    if issubclass(k, errors.TinkerScriptError)
]


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_of_the_wire_has_its_type(code):
    body = f'{{"error": {{"code": "{code.value}", "message": "m"}}, "request_id": "r"}}'.encode()
    failure = error_from_response(418, body, {}, what="GET /", url="http://127.0.0.1:1")
    assert type(failure) is not errors.TinkerScriptError
    assert (failure.code, failure.message, failure.request_id) == (code.value, "m", "r")


def test_text_has_message_hint_and_request_id():
    failure = errors.NotFound("No such session.", hint="List them.", request_id="req_1", status=404)
    assert str(failure) == "No such session. Hint: List them. (request req_1)"


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_public_drawn_in_the_tree_and_survives_pickling(kind):
    assert kind.__name__ in tinkerscript.__all__
    assert kind.__name__ in errors.__doc__
    failure = kind("m", hint="h", code="c", request_id="r", status=418, details={"a": 1})
    for again in (pickle.loads(pickle.dumps(failure)), copy.copy(failure)):
        assert (str(again), again.status, again.details) == (str(failure), 418, {"a": 1})


def test_retry_after_that_is_no_number_is_ignored():
    for value in ("Wed, 21 Oct 2026 07:28:00 GMT", "nan", "inf", "-1", ""):
        assert (
            error_from_response(
                503, b"", {"retry-after": value}, what="GET /", url="http://127.0.0.1:1"
            ).retry_after_s
            is None
        )
