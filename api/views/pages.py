"""What is not under /v1: health, metrics, the OpenAPI document, and the console's single page."""

import hmac
from functools import lru_cache
from ipaddress import ip_address

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt, ensure_csrf_cookie
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from api.auth import bearer
from api.errors import MethodNotAllowed, NotReady, error_response
from api.openapi import text
from console.errors import DomainError, Forbidden, Unauthenticated
from console.readiness import obstacle_find, problems_list
from console.scrape import metrics_text

NOT_BUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>TinkerScript</title>
<body><h1>The console is not built yet</h1><p>Run <code>make frontend</code> in the checkout, then reload this page.
The API works all the same: see <a href="/openapi.json">/openapi.json</a>.</p></body></html>
"""


def healthz(request: HttpRequest) -> HttpResponse:
    """This process answers."""
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> HttpResponse:
    """This process can serve: its database answers and is up to date. What else is wrong is said, without a refusal."""
    if obstacle := obstacle_find():
        return error_response(request, NotReady(obstacle, hint="Look at DATABASE_URL and at the database's log."))
    if problems := problems_list():
        return JsonResponse({"status": "degraded", "problems": problems})
    return JsonResponse({"status": "ok"})


def metrics(request: HttpRequest) -> HttpResponse:
    """For Prometheus: with the token of the settings, or, where there is none, from this machine."""
    try:
        _may_read_metrics(request)
    except DomainError as refusal:
        return error_response(request, refusal)
    return HttpResponse(metrics_text(), content_type=CONTENT_TYPE_PLAIN_0_0_4)


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


def _may_read_metrics(request: HttpRequest) -> None:
    if settings.METRICS_TOKEN:
        if not hmac.compare_digest(bearer(request).encode(), settings.METRICS_TOKEN.encode()):
            raise Unauthenticated("This is not the token of TINKERSCRIPT_METRICS_TOKEN.")
        return
    # What a proxy on this machine passes on comes from loopback too, and says so.
    is_passed_on = any(name in request.headers for name in ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"))
    if is_passed_on or not ip_address(request.META["REMOTE_ADDR"]).is_loopback:
        raise Forbidden(
            "Metrics are read from this machine only.",
            hint="To read them from elsewhere set TINKERSCRIPT_METRICS_TOKEN.",
        )


@lru_cache
def _openapi() -> str:
    return text()
