"""Idempotency-Key on a POST: the work and the record of its response are one transaction; a retry
repeats neither.
"""

import hashlib
import re
from collections.abc import Callable

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from api.rest.errors import error_response, json_response
from console.errors import Conflict, DomainError, InvalidRequest
from console.users.idempotency import record_claim, record_complete
from console.users.models import IdempotencyRecord, Project

FORM = re.compile(r"[\x21-\x7e]{1,200}")


def idempotency_key_of(request: HttpRequest) -> str | None:
    """The header, None when absent. Raises InvalidRequest for anything but 1 to 200 visible ASCII
    characters.
    """
    key = request.headers.get("Idempotency-Key")
    if key is not None and not FORM.fullmatch(key):
        raise InvalidRequest(
            "Idempotency-Key must be 1 to 200 visible ASCII characters.",
            hint="A UUID does well.",
            details={},
        )
    return key


def done_once(
    respond: Callable[[], HttpResponseBase],
    request: HttpRequest,
    project: Project,
    *,
    secret: bool = False,
) -> HttpResponseBase:
    """Have ``respond`` run once per key; later requests get the first one's response.

    Refusals (4xx) are stored too; 429 and 5xx are not, because the same request may succeed later.
    ``secret`` responses are never stored: a repetition is a Conflict.
    """
    key = idempotency_key_of(request)
    if key is None:
        return respond()
    with transaction.atomic():
        row, is_new = record_claim(
            project=project,
            key=key,
            request=f"{request.method} {request.path}"[:300],
            body_sha256=_content_sha256(request),
        )
        if not is_new:
            return _again(row)
        try:
            # a refusal undoes what the view began, not the record of the refusal
            with transaction.atomic():
                response = respond()
        except DomainError as error:
            if error.status >= 500 or error.status == 429:
                raise
            response = error_response(request, error)
        if not (secret and response.status_code < 400):
            assert isinstance(response, HttpResponse), "nothing that is done once is streamed"
            record_complete(row=row, status=response.status_code, body=response.content.decode())
        return response


def _content_sha256(request: HttpRequest) -> str:
    """What was asked for beside method and path: the body, and a query where there is one
    (ResumeQuery).
    """
    body = hashlib.sha256(request.body)
    query = request.META.get("QUERY_STRING", "")
    return hashlib.sha256(body.digest() + query.encode()).hexdigest() if query else body.hexdigest()


def _again(row: IdempotencyRecord) -> HttpResponse:
    if row.status is None:
        raise Conflict(
            "This request was carried out before and returned a secret, which is shown only once.",
            hint="If that response was lost, revoke the key that it made and make another with a "
            "new Idempotency-Key.",
        )
    response = json_response(row.body, row.status)
    response["Idempotent-Replay"] = "true"
    return response
