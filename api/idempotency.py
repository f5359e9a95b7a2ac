"""Idempotency-Key on a POST: the work and the record of its answer are one transaction, so a retry repeats neither."""

import functools
import hashlib
import re
from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse

from api.errors import error_response
from console.errors import Conflict, DomainError, InvalidRequest
from console.users.idempotency import answer_claim, answer_keep
from console.users.models import KeptAnswer

FORM = re.compile(r"[\x21-\x7e]{1,200}")


def idempotency_key_of(request: HttpRequest) -> str | None:
    """The header, None when absent. Raises InvalidRequest for anything but 1 to 200 visible ASCII characters."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and not FORM.fullmatch(key):
        raise InvalidRequest(
            "Idempotency-Key must be 1 to 200 visible ASCII characters.", hint="A UUID does well.", details={}
        )
    return key


def idempotent(view: Callable[..., HttpResponse], *, secret: bool = False) -> Callable[..., HttpResponse]:
    """Run ``view`` once per key; later requests get the first one's answer.

    Refusals (4xx) are kept like answers; 429 and 5xx are not, because the same request may succeed later. ``secret``
    answers are never stored: a repetition is a Conflict.
    """

    @functools.wraps(view)
    def once(request: HttpRequest, **values: Any) -> HttpResponse:
        key = idempotency_key_of(request)
        if key is None:
            return view(request, **values)
        with transaction.atomic():
            row, is_new = answer_claim(
                project=request.auth.project,
                key=key,
                request=f"{request.method} {request.path}"[:300],
                body_sha256=hashlib.sha256(request.body).hexdigest(),
            )
            if not is_new:
                return _again(row)
            response = _first(view, request, values)
            if not (secret and response.status_code < 400):
                answer_keep(row=row, status=response.status_code, body=response.content.decode())
            return response

    return once


def _first(view: Callable[..., HttpResponse], request: HttpRequest, values: dict[str, Any]) -> HttpResponse:
    try:
        with transaction.atomic():  # a refusal undoes what the view began, not the record of the refusal
            return view(request, **values)
    except DomainError as error:
        if error.status >= 500 or error.status == 429:
            raise
        return error_response(request, error)


def _again(row: KeptAnswer) -> HttpResponse:
    if row.status is None:
        raise Conflict(
            "This request was answered before with a secret, which is shown only once.",
            hint="If that answer was lost, revoke the key that it made and make another with a fresh Idempotency-Key.",
        )
    response = HttpResponse(row.body, status=row.status, content_type="application/json")
    response["Idempotent-Replay"] = "true"
    return response
