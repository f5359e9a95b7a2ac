"""Sign-in with an identity provider: where the browser is sent, and what it comes back with."""

import logging

from allauth.account.adapter import get_adapter
from allauth.core import ratelimit
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from httpx import HTTPError
from requests import RequestException

from api.rest.errors import MethodNotAllowed, NotReady, error_response
from console.errors import NotFound, RateLimited
from console.users.providers import oidc

log = logging.getLogger(__name__)
UNREACHABLE = (RequestException, HTTPError, KeyError, ValueError)


def begin(request: HttpRequest) -> HttpResponse:
    """``{"location"}``: the provider's page. It sends the browser back to the path ``next`` of this
    server.

    JSON in the place of a redirect, because the content security policy lets no form lead to
    another origin.
    """
    if refusal := _refusal(request, method="POST", action="provider_begin"):
        return refusal
    next_path = request.GET.get("next", "/")
    if not (next_path.startswith("/") and get_adapter().is_safe_url(next_path)):
        next_path = "/"
    try:
        return JsonResponse({"location": oidc.sign_in_begin(request, next_path=next_path)})
    except UNREACHABLE:
        return _not_ready(request)


def end(request: HttpRequest) -> HttpResponse:
    """The redirect URI that is registered with the provider; leads to the path ``next``."""
    if refusal := _refusal(request, method="GET"):
        return refusal
    try:
        return oidc.sign_in_end(request)
    except UNREACHABLE:  # since the sign-in was begun
        log.exception("an identity provider cannot be asked")
        return HttpResponseRedirect("/signin/done?error=unknown")


def _refusal(
    request: HttpRequest, *, method: str, action: str | None = None
) -> HttpResponse | None:
    """Why this server takes no such request; None: it does. ``action``: its limit in
    ACCOUNT_RATE_LIMITS.
    """
    if settings.OIDC is None:
        missing = NotFound(
            "This server has no such identity provider.", hint="Sign in with e-mail and password."
        )
        return error_response(request, missing)
    if request.method != method:
        return error_response(request, MethodNotAllowed(request.method, (method,)))
    if action and not ratelimit.consume(request, action=action):
        limited = RateLimited(
            "Too many sign-ins were begun from this address.", hint="Wait a minute."
        )
        return error_response(request, limited)
    return None


def _not_ready(request: HttpRequest) -> HttpResponse:
    log.exception("an identity provider cannot be asked")
    return error_response(
        request, NotReady("The identity provider does not respond.", hint="Try again in a minute.")
    )
