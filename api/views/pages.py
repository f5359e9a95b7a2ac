"""What is not under /v1: health, the OpenAPI document, and the console's single page."""

from functools import lru_cache

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt, ensure_csrf_cookie

from api.errors import MethodNotAllowed, NotReady, error_response
from api.openapi import text

NOT_BUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>TinkerScript</title>
<body><h1>The console is not built yet</h1><p>Run <code>make frontend</code> in the checkout, then reload this page.
The API works all the same: see <a href="/openapi.json">/openapi.json</a>.</p></body></html>
"""


def healthz(request: HttpRequest) -> HttpResponse:
    """This process answers."""
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> HttpResponse:
    """This process and its database answer."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM console_session LIMIT 1")
    except DatabaseError as error:
        return error_response(
            request, NotReady(f"The database does not answer: {error}", hint="Run `python manage.py migrate`.")
        )
    return JsonResponse({"status": "ok"})


def openapi(request: HttpRequest) -> HttpResponse:
    """The OpenAPI document."""
    return HttpResponse(_openapi(), content_type="application/json")


@csrf_exempt  # it only reads, and refuses every other method in its own words
@ensure_csrf_cookie  # the console's first write needs the token
def single_page(request: HttpRequest) -> HttpResponse:
    """The console: every address of its own is the same page."""
    if request.method not in ("GET", "HEAD"):
        response = error_response(request, MethodNotAllowed(f"{request.method} is not allowed here."))
        response["Allow"] = "GET, HEAD"
        return response
    page = settings.FRONTEND_DIST / "index.html"
    if not page.is_file():
        return HttpResponse(NOT_BUILT, status=200)
    response = HttpResponse(page.read_bytes(), content_type="text/html; charset=utf-8")
    response["Cache-Control"] = "no-cache"  # the page names its assets by hash; it must not outlive them
    return response


@lru_cache
def _openapi() -> str:
    return text()
