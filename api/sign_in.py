"""Sign-in with an identity provider: where the browser is sent, and what it comes back with."""

import logging

from allauth.account.adapter import get_adapter
from allauth.core import ratelimit
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from requests import RequestException

from api.rest.errors import MethodNotAllowed, NotReady, error_response
from console.errors import NotFound, RateLimited
from console.users.oidc import sign_in_begin, sign_in_end

log = logging.getLogger(__name__)


def begin(request: HttpRequest) -> HttpResponse:
    """``{"location"}``: the provider's page. It sends the browser back to the path ``next`` of this server.

    JSON in the place of a redirect, because the content security policy lets no form lead to another origin.
    """
    if settings.OIDC is None:
        return error_response(request, _nothing())
    if request.method != "POST":
        return error_response(request, MethodNotAllowed(request.method, ("POST",)))
    if not ratelimit.consume(request, action="provider_begin"):
        return error_response(
            request, RateLimited("Too many sign-ins were begun from this address.", hint="Wait a minute.")
        )
    next_path = request.GET.get("next", "/")
    if not (next_path.startswith("/") and get_adapter().is_safe_url(next_path)):
        next_path = "/"
    try:
        return JsonResponse({"location": sign_in_begin(request, next_path=next_path)})
    except (RequestException, KeyError, ValueError):
        log.exception("the identity provider %s cannot be asked", settings.OIDC.issuer)
        return error_response(
            request, NotReady("The identity provider does not respond.", hint="Try again in a minute.")
        )


def end(request: HttpRequest) -> HttpResponse:
    """The redirect URI that is registered with the provider; leads to the path ``next``."""
    if settings.OIDC is None:
        return error_response(request, _nothing())
    if request.method != "GET":
        return error_response(request, MethodNotAllowed(request.method, ("GET",)))
    return sign_in_end(request)


def _nothing() -> NotFound:
    return NotFound("This server has no identity provider.", hint="Sign in with e-mail and password.")
