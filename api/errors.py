"""The one error body, for whatever goes wrong on the way to a view, inside it, or where there is none.

DomainError
  MethodNotAllowed   405  the path exists, this method on it does not
  NotReady           503  this server cannot serve yet
"""

import logging
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja.errors import HttpError, ValidationError

from api.rate_limit import allowance_show
from console.errors import DomainError, Forbidden, InvalidRequest, NotFound, SessionNotReady
from console.logs import refusal_expect
from console.request_id import request_id_of
from tinkerscript.wire.errors import ErrorBody, ErrorCode, ErrorDetail

RETRY_AFTER_S = {429: 1, 503: 1}

logger = logging.getLogger(__name__)


class MethodNotAllowed(DomainError):
    code = ErrorCode.METHOD_NOT_ALLOWED
    status = 405


class NotReady(DomainError):
    status = 503


def error_response(request: HttpRequest, error: DomainError) -> HttpResponse:
    """A refusal as it travels."""
    request_id = request_id_of(request)
    detail = ErrorDetail(code=error.code, message=error.message, hint=error.hint, details=error.details)
    body = ErrorBody(error=detail, request_id=request_id)
    response = HttpResponse(body.model_dump_json(), status=error.status, content_type="application/json")
    response["X-Request-Id"] = request_id
    if error.status > 500:
        refusal_expect(request, level=logging.INFO if isinstance(error, SessionNotReady) else logging.WARNING)
    if error.status in RETRY_AFTER_S:
        response["Retry-After"] = str(error.details.get("retry_after_s", RETRY_AFTER_S[error.status]))
    return allowance_show(request, response)


def internal_error_response(request: HttpRequest, error: BaseException | None = None) -> HttpResponse:
    """Our bug: the log has the traceback under the request's id, the client has the id."""
    request_id = request_id_of(request)
    logger.error("%s %s failed", request.method, request.path, exc_info=error, extra={"request_id": request_id})
    return error_response(
        request,
        DomainError(
            "Something went wrong on the server.",
            hint=f"Try again; if it happens again, look for {request_id} in the server's log.",
        ),
    )


def parse_error(error: HttpError) -> DomainError:
    """What Ninja itself refuses: a body that its parser did not take."""
    cause = error.__cause__
    if isinstance(cause, DomainError):
        return cause
    problem = f"not JSON: {cause}" if cause else error.message
    return InvalidRequest(
        "The request's body cannot be read.",
        hint="Send one JSON object in UTF-8.",
        details={"fields": [{"field": "", "problem": problem}]},
    )


def validation_error(error: ValidationError) -> InvalidRequest:
    """Each field that does not fit, by its path: ``config.grpo_n``."""
    return fields_error([_field(problem) for problem in error.errors])


def fields_error(fields: list[dict[str, str]]) -> InvalidRequest:
    """A refusal that names fields: ``[{"field", "problem"}]``. A reward has a code of its own."""
    unknown = [entry["field"] for entry in fields if entry["problem"] == UNKNOWN]
    error = InvalidRequest(
        "; ".join(f"{entry['field'] or 'the body'}: {entry['problem']}" for entry in fields[:5]),
        hint="Remove what is unknown; /openapi.json lists every field." if unknown else "Correct the fields named.",
        details={"fields": fields},
    )
    if fields and all(entry["field"].startswith("output.reward") for entry in fields):
        error.code = ErrorCode.INVALID_REWARD
        error.hint = "A reward is a finite number."
    return error


UNKNOWN = "unknown field"


def _field(problem: dict[str, Any]) -> dict[str, str]:
    source, *path = problem["loc"]
    if source == "body":
        path = path[1:]  # the view's own name for the body
    text = UNKNOWN if problem["type"] == "extra_forbidden" else problem["msg"]
    return {"field": ".".join(str(part) for part in path), "problem": text}


# -- Where no view was reached ------------------------------------------------------------------------------------


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """No such path."""
    return error_response(
        request, NotFound(f"There is nothing at {request.path}.", hint="See /openapi.json for every path.")
    )


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """What Django refuses before a view sees it."""
    return error_response(request, InvalidRequest(f"{HTTPStatus.BAD_REQUEST.phrase}: {type(exception).__name__}"))


def forbidden(request: HttpRequest, exception: Exception | None = None, reason: str = "") -> HttpResponse:
    """What Django does not permit."""
    return error_response(request, Forbidden(reason or "This is not permitted.", hint="Sign in again and retry."))


def internal(request: HttpRequest) -> HttpResponse:
    """What was raised outside of the API's own views."""
    return internal_error_response(request)
