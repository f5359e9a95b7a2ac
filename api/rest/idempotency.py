"""Idempotency-Key on a POST: the work and the record of its response are one transaction; a retry
repeats neither.
"""

import functools
import hashlib
import re
from collections.abc import Callable
from typing import Any

from django.db import transaction
from rest_framework.response import Response

from api.rest.errors import error_result
from api.rest.rendering import JsonRenderer, JsonText
from api.rest.requests import ApiRequest
from console.errors import Conflict, DomainError, InvalidRequest
from console.users.idempotency import record_claim, record_complete
from console.users.models import IdempotencyRecord

FORM = re.compile(r"[\x21-\x7e]{1,200}")


def idempotency_key_of(request: ApiRequest) -> str | None:
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


def idempotent(view: Callable[..., Response], *, secret: bool = False) -> Callable[..., Response]:
    """Run ``view`` once per key; later requests get the first one's response.

    Refusals (4xx) are stored too; 429 and 5xx are not, because the same request may succeed later.
    ``secret`` responses are never stored: a repetition is a Conflict.
    """

    @functools.wraps(view)
    def once(request: ApiRequest, **values: Any) -> Response:
        key = idempotency_key_of(request)
        if key is None:
            return view(request, **values)
        with transaction.atomic():
            row, is_new = record_claim(
                project=request.auth.project,
                key=key,
                request=f"{request.method} {request.path}"[:300],
                body_sha256=_content_sha256(request),
            )
            if not is_new:
                return _again(row)
            response = _first(view, request, values)
            if not (secret and response.status_code < 400):
                body = JsonRenderer().render(response.data).decode()
                record_complete(row=row, status=response.status_code, body=body)
            return response

    return once


def _content_sha256(request: ApiRequest) -> str:
    """What was asked for beside method and path: the body, and a query where there is one
    (ResumeQuery).
    """
    body = hashlib.sha256(request.http.body)
    query = request.http.META.get("QUERY_STRING", "")
    return hashlib.sha256(body.digest() + query.encode()).hexdigest() if query else body.hexdigest()


def _first(view: Callable[..., Response], request: ApiRequest, values: dict[str, Any]) -> Response:
    try:
        # a refusal undoes what the view began, not the record of the refusal
        with transaction.atomic():
            return view(request, **values)
    except DomainError as error:
        if error.status >= 500 or error.status == 429:
            raise
        return error_result(request.http, error)


def _again(row: IdempotencyRecord) -> Response:
    if row.status is None:
        raise Conflict(
            "This request was carried out before and returned a secret, which is shown only once.",
            hint="If that response was lost, revoke the key that it made and make another with a "
            "new Idempotency-Key.",
        )
    return Response(JsonText(row.body), status=row.status, headers={"Idempotent-Replay": "true"})
