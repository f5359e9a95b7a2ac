"""What is not under /v1: health, metrics, the OpenAPI document, and the console's single page."""

import hmac
from functools import lru_cache
from ipaddress import ip_address

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.csrf import csrf_exempt, ensure_csrf_cookie
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from api.openapi import text
from api.rest.authentication import bearer
from api.rest.errors import MethodNotAllowed, NotReady, error_response, is_of_model, no_model_here
from console.errors import DomainError, Forbidden, NotFound, Unauthenticated
from console.operations.client_wheel import WHEEL_NAME, ClientUnavailable, client_wheel
from console.operations.readiness import obstacle_find, problems_list
from console.operations.row_metrics import metrics_text
from console.server.middleware import strict_policy_set

NOT_BUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>TinkerScript</title>
<body><h1>The console is not built yet</h1><p>Run <code>make frontend</code> in the checkout, then reload this page.
The API works all the same: see <a href="/openapi.json">/openapi.json</a>.</p></body></html>
"""


def healthz(request: HttpRequest) -> HttpResponse:
    """200 as long as this process serves requests at all."""
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> HttpResponse:
    """This process can serve: its database is reachable and up to date. Other problems are listed,
    with status 200.

    Who may read ``/metrics`` sees what is wrong; everyone else only sees ready, or not.
    """
    is_operator = _is_operator(request)
    if obstacle := obstacle_find():
        hint = "Look at DATABASE_URL and at the database's log."
        return error_response(
            request, NotReady(obstacle, hint=hint) if is_operator else NotReady("Not ready.")
        )
    problems = problems_list()
    if not problems:
        return JsonResponse({"status": "ok"})
    return JsonResponse({"status": "degraded"} | ({"problems": problems} if is_operator else {}))


def metrics(request: HttpRequest) -> HttpResponse:
    """For Prometheus: with the token of the settings, or, where there is none, from this
    machine.
    """
    try:
        _may_read_metrics(request)
    except DomainError as refusal:
        return error_response(request, refusal)
    return HttpResponse(metrics_text(), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def openapi(request: HttpRequest) -> HttpResponse:
    """The OpenAPI document."""
    return HttpResponse(document_read(), content_type="application/json")


@ensure_csrf_cookie  # "try it" sends the token with what it writes
def docs(request: HttpRequest) -> HttpResponse:
    """The API reference: the OpenAPI document, with requests that are sent in the person's own
    session.
    """
    response = render(request, "api/docs.html")
    strict_policy_set(response)
    return response


def client_package(request: HttpRequest, name: str) -> HttpResponse:
    """The client's wheel, for `pip install`, which wants the whole name; tinkerscript.whl leads
    there.
    """
    if name == WHEEL_NAME:
        try:
            return HttpResponse(client_wheel(), content_type="application/zip")
        except ClientUnavailable as failure:
            return error_response(request, failure)
    if name == "tinkerscript.whl":
        return redirect(f"/client/{WHEEL_NAME}")
    wheel = f"{settings.PUBLIC_URL}/client/{WHEEL_NAME}"
    return error_response(
        request, NotFound(f"There is no {name} here.", hint=f"pip install {wheel}")
    )


@csrf_exempt  # it only reads, and refuses every other method in its own words
@ensure_csrf_cookie  # the console's first write needs the token
def single_page(request: HttpRequest) -> HttpResponse:
    """The console: every address of its own is the same page."""
    if request.method not in ("GET", "HEAD"):
        if is_of_model(request):
            return error_response(request, no_model_here(request))
        return error_response(request, MethodNotAllowed(request.method, ("GET", "HEAD")))
    page = settings.FRONTEND_DIST / "index.html"
    if not page.is_file():
        return HttpResponse(NOT_BUILT, status=200)
    response = HttpResponse(page.read_bytes(), content_type="text/html; charset=utf-8")
    # the page names its assets by hash; it must not outlive them
    response["Cache-Control"] = "no-cache"
    return response


def _may_read_metrics(request: HttpRequest) -> None:
    if settings.METRICS_TOKEN:
        if not hmac.compare_digest(bearer(request).encode(), settings.METRICS_TOKEN.encode()):
            raise Unauthenticated("This is not the token of TINKERSCRIPT_METRICS_TOKEN.")
        return
    # What a proxy on this machine passes on comes from loopback too, and says so.
    is_passed_on = any(
        name in request.headers for name in ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via")
    )
    if is_passed_on or not ip_address(request.META["REMOTE_ADDR"]).is_loopback:
        raise Forbidden(
            "Metrics are read from this machine only.",
            hint="To read them from elsewhere set TINKERSCRIPT_METRICS_TOKEN.",
        )


def _is_operator(request: HttpRequest) -> bool:
    try:
        _may_read_metrics(request)
    except DomainError:
        return False
    return True


@lru_cache
def document_read() -> str:
    """The OpenAPI document as JSON, read once."""
    return text()
