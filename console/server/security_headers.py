"""Headers on every response that make the browser refuse foreign scripts, frames, devices, and
copies of API data.

The console shows what models wrote, which may be anything: a script that got into a page must not
run. Styles may stand in a page, because the dialogs' scroll lock and the toasts' library (sonner)
each put one there; they can neither run nor send anything.
"""

from collections.abc import Callable
from inspect import iscoroutinefunction

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware


def _policy(styles: str, images: str) -> str:
    """A page loads nothing from elsewhere, runs nothing inline and stands in no frame."""
    return (
        f"default-src 'none'; script-src 'self'; style-src {styles}; img-src {images}; font-src "
        "'self'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )


CONTENT_SECURITY_POLICY = _policy("'self' 'unsafe-inline'", "'self' data: blob:")
# For our pages that need no style inside a page: the REST reference and the pages of endpoints.
STRICT_CONTENT_SECURITY_POLICY = _policy("'self'", "'self' data:")
PERMISSIONS_POLICY = (
    "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"
)
# A browser that has once seen this server over TLS asks for it so for a year.
HSTS = "max-age=31536000"
# responses for one person: no proxy or cache may keep them
PRIVATE = ("/v1/", "/_allauth/", "/api/", "/sign-in/")


@sync_and_async_middleware
def security_headers(get_response: Callable) -> Callable:
    """Middleware. A view that sets one of these headers itself keeps its own."""
    if iscoroutinefunction(get_response):

        async def respond_async(request: HttpRequest) -> HttpResponseBase:
            return security_headers_set(request.path, await get_response(request))

        return respond_async

    def respond(request: HttpRequest) -> HttpResponseBase:
        return security_headers_set(request.path, get_response(request))

    return respond


def security_headers_set(path: str, response: HttpResponseBase) -> HttpResponseBase:
    """Add them to the response to a request of ``path``; the response."""
    response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
    response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
    response.headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
    response.headers.setdefault("Referrer-Policy", "same-origin")
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    response.headers.setdefault("X-Frame-Options", "DENY")
    if path.startswith(PRIVATE):
        response.headers.setdefault("Cache-Control", "no-store")
    if settings.PUBLIC_URL.startswith("https://"):
        response.headers.setdefault("Strict-Transport-Security", HSTS)
    return response


def strict_policy_set(page: HttpResponseBase) -> None:
    """Give the page the stricter of the two policies."""
    page.headers["Content-Security-Policy"] = STRICT_CONTENT_SECURITY_POLICY
