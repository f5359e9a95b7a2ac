"""The demo run: a session of ``make quickstart`` that has ended, for people without one of their
own.

It is a recording (``tests/demo_run.py`` makes it) and belongs to no project: the console shows it
below ``/demo`` as it shows an exported run, and every request there reads the recording's files.
"""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from api.rest.errors import MethodNotAllowed, error_response
from console.errors import Conflict, DomainError, InvalidRequest, NotFound
from tinkerscript import errors as client_errors

if TYPE_CHECKING:
    from tinkerscript.viewer.answers import Answers

FOLDER = Path(__file__).with_name("demo_run")
REFUSALS: dict[type[client_errors.TinkerScriptError], type[DomainError]] = {
    client_errors.NotFound: NotFound,
    client_errors.Conflict: Conflict,
    client_errors.InvalidRequest: InvalidRequest,
}


@lru_cache
def demo_run() -> "Answers":
    """The recording, read when it is first asked for, and with it the client's code for that."""
    from tinkerscript.viewer.answers import Answers
    from tinkerscript.viewer.run_folder import RunFolder

    return Answers(RunFolder(FOLDER))


@csrf_exempt  # it only reads, and refuses every other method in its own words
def demo_answer(request: HttpRequest, path: str) -> HttpResponse:
    """What ``GET /v1/{path}`` would say of the demo run, to everybody."""
    if request.method not in ("GET", "HEAD"):
        return error_response(request, MethodNotAllowed(request.method, ("GET", "HEAD")))
    try:
        return JsonResponse(demo_run().get(f"/v1/{path}", dict(request.GET.lists())))
    except tuple(REFUSALS) as refusal:
        return error_response(request, REFUSALS[type(refusal)](refusal.message, hint=refusal.hint))
    except ValueError as wrong:  # a number that is none
        return error_response(request, InvalidRequest(str(wrong)))
