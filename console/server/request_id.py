"""One id per request, in the log, in the error body and in X-Request-Id of the response."""

import re
import uuid

from django.http import HttpRequest

ACCEPTED = re.compile(r"[A-Za-z0-9._-]{1,64}")


def request_id_new() -> str:
    """A fresh one."""
    return f"req_{uuid.uuid4().hex}"


def request_id_of(request: HttpRequest) -> str:
    """The id that this request came with, if it is a plain word, else the one it is given now."""
    given = request.META.get("HTTP_X_REQUEST_ID", "")
    if not ACCEPTED.fullmatch(given):
        given = request.META["HTTP_X_REQUEST_ID"] = request_id_new()
    return given
