"""The one error body, for errors before a view, inside it, or where there is none.

DomainError
  MethodNotAllowed   405  the path exists, this method on it does not
  NotReady           503  this server cannot serve yet
"""

import logging
import sys
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.exceptions import TooManyFieldsSent
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from console.config.full_disk import disk_full_of
from console.errors import DomainError, Forbidden, InvalidRequest, NotFound, SessionNotReady
from console.server.logs import refusal_expect
from console.server.request_id import request_id_of
from tinkerscript.wire.dialects.table import DIALECTS
from tinkerscript.wire.errors import ErrorBody, ErrorCode, ErrorDetail
from tinkerscript.wire.training.advice import other_ways

RETRY_AFTER_S = {429: 1, 503: 1}
UNKNOWN = "unknown field"
# What clients of models add to their base_url, after /v1.
MODEL_PATHS = (
    "/embeddings",
    "/models",
    *(path.removeprefix("/v1") for row in DIALECTS for path in row.paths),
)
MAX_FIELDS = 20

logger = logging.getLogger(__name__)


class MethodNotAllowed(DomainError):
    code = ErrorCode.METHOD_NOT_ALLOWED
    status = 405

    def __init__(self, method: str | None, allowed: Iterable[str]) -> None:
        self.allowed = sorted(allowed)
        hint = f"This path takes {', '.join(self.allowed)}."
        super().__init__(f"{method} is not allowed here.", hint=hint)


class NotReady(DomainError):
    status = 503


def error_response(request: HttpRequest, error: DomainError) -> HttpResponse:
    """The error as the response: JSON, whatever the client accepts."""
    if error.status > 500:  # the level at which Django logs the request's status
        refusal_expect(
            request, level=logging.INFO if isinstance(error, SessionNotReady) else logging.WARNING
        )
    detail = ErrorDetail(
        code=error.code, message=error.message, hint=error.hint, details=error.details
    )
    body = ErrorBody(error=detail, request_id=request_id_of(request))
    response = json_response(body.model_dump_json(), error.status)
    response["X-Request-Id"] = body.request_id
    if error.status in RETRY_AFTER_S:
        response["Retry-After"] = str(
            error.details.get("retry_after_s", RETRY_AFTER_S[error.status])
        )
    if isinstance(error, MethodNotAllowed):
        response["Allow"] = ", ".join(error.allowed)
    return response


def json_response(text: str, status: int = 200) -> HttpResponse:
    """JSON as it is written already; what has no content has no Content-Type."""
    response = HttpResponse(text, status=status, content_type="application/json")
    if not text:
        del response["Content-Type"]
    return response


def exception_handler(error: Exception, context: dict[str, Any]) -> HttpResponse:
    """What Django REST framework calls for whatever a view raises."""
    request: HttpRequest = context["request"]._request  # noqa: SLF001 - DRF's only name for Django's request
    return error_response(
        request, error if isinstance(error, DomainError) else _unforeseen(request, error)
    )


def _unforeseen(request: HttpRequest, error: BaseException | None) -> DomainError:
    if isinstance(error, TooManyFieldsSent):
        return InvalidRequest("The query has too many parameters.", hint="Ask for less at once.")
    return disk_full_of(error) or _internal(request, error)


def _internal(request: HttpRequest, error: BaseException | None) -> DomainError:
    """Our bug: the log has the traceback under the request's id, the client has the id."""
    request_id = request_id_of(request)
    logger.error(
        "%s %s failed",
        request.method,
        request.path,
        exc_info=error,
        extra={"request_id": request_id},
    )
    return DomainError(
        "Something went wrong on the server.",
        hint=f"Try again; if it happens again, look for {request_id} in the server's log.",
    )


def fields_error(fields: list[dict[str, str]]) -> InvalidRequest:
    """A refusal that names fields: ``[{"field", "problem"}]``. A reward has a code of its own.

    It lists the first twenty; ``details.more`` is how many more there are.
    """
    unknown = [entry["field"] for entry in fields if entry["problem"] == UNKNOWN]
    options = [name.removeprefix("config.") for name in unknown if name.startswith("config.")]
    error = InvalidRequest(
        "; ".join(f"{entry['field'] or 'the body'}: {entry['problem']}" for entry in fields[:5]),
        hint=f"{other_ways(options)} Remove what is unknown; /openapi.json lists every field.".lstrip()
        if unknown
        else "Correct the fields named.",
        details={"fields": fields[:MAX_FIELDS]}
        | ({"more": len(fields) - MAX_FIELDS} if fields[MAX_FIELDS:] else {}),
    )
    if fields and all(entry["field"].startswith("output.reward") for entry in fields):
        error.code = ErrorCode.INVALID_REWARD
        error.hint = "A reward is a finite number."
    return error


# -- Where no view was reached ------------------------------------------------------------------------------------


@csrf_exempt  # it only refuses: a client without a cookie is told why as well
def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Django's handler404: the body of an error for a path that no route has."""
    if is_of_model(request):
        return error_response(request, no_model_here(request))
    return error_response(
        request,
        NotFound(f"There is nothing at {request.path}.", hint="See /openapi.json for every path."),
    )


def is_of_model(request: HttpRequest) -> bool:
    """Whether the path is one that the clients of models add to their base_url."""
    return request.path.rstrip("/").endswith(MODEL_PATHS)


def no_model_here(request: HttpRequest) -> NotFound:
    """The refusal of an agent with a wrong base_url. Its client shows the message alone, so all is
    in it.
    """
    return NotFound(
        f"There is no model at {request.path}. An agent's base_url is "
        f"{settings.PUBLIC_URL}/openai/v1: begin_episode()"
        " gives it, with the api_key that belongs to it."
    )


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """What Django refuses before a view sees it."""
    return error_response(
        request, InvalidRequest(f"{HTTPStatus.BAD_REQUEST.phrase}: {type(exception).__name__}")
    )


def forbidden(
    request: HttpRequest, exception: Exception | None = None, reason: str = ""
) -> HttpResponse:
    """What Django does not permit."""
    return error_response(
        request, Forbidden(reason or "This is not permitted.", hint="Sign in again and retry.")
    )


def internal(request: HttpRequest) -> HttpResponse:
    """What was raised outside of the API's own views; Django calls this while it handles that."""
    return error_response(request, disk_full_of(sys.exception()) or _internal(request, None))
