"""From an HTTP response to the typed error that it stands for; and of responses that no
TinkerScript server wrote, pages of proxies, gateways and portals, what to do about them.
"""

import html
import json
import re
from collections.abc import Mapping
from typing import Any

import httpx

from tinkerscript.errors import (
    AuthenticationError,
    Conflict,
    DiskFull,
    EmptyEpisode,
    EpisodeClosed,
    IdempotencyMismatch,
    InternalError,
    InvalidRequest,
    InvalidReward,
    NotFound,
    PermissionDenied,
    RateLimited,
    ServerUnreachable,
    SessionFailed,
    SessionNotReady,
    StaleLease,
    StorageUnavailable,
    TinkerScriptError,
    UnexpectedAnswer,
    UnknownBaseModel,
)
from tinkerscript.wire.errors import ErrorCode

from .retries import retry_after_s

_BY_CODE: dict[str, type[TinkerScriptError]] = {
    ErrorCode.INVALID_REQUEST: InvalidRequest,
    ErrorCode.UNKNOWN_BASE_MODEL: UnknownBaseModel,
    ErrorCode.MODEL_UNSUPPORTED: InvalidRequest,
    ErrorCode.INVALID_REWARD: InvalidReward,
    ErrorCode.UNAUTHENTICATED: AuthenticationError,
    ErrorCode.FORBIDDEN: PermissionDenied,
    ErrorCode.NOT_FOUND: NotFound,
    ErrorCode.METHOD_NOT_ALLOWED: UnexpectedAnswer,
    ErrorCode.CONFLICT: Conflict,
    ErrorCode.IDEMPOTENCY_MISMATCH: IdempotencyMismatch,
    ErrorCode.STALE_LEASE: StaleLease,
    ErrorCode.EPISODE_CLOSED: EpisodeClosed,
    ErrorCode.EMPTY_EPISODE: EmptyEpisode,
    ErrorCode.RATE_LIMITED: RateLimited,
    ErrorCode.SESSION_FAILED: SessionFailed,
    ErrorCode.SESSION_NOT_READY: SessionNotReady,
    ErrorCode.STORAGE_UNAVAILABLE: StorageUnavailable,
    ErrorCode.DISK_FULL: DiskFull,
    ErrorCode.INTERNAL: InternalError,
}

# For responses that carry no code we know: a proxy's page, or a newer server's code.
_BY_STATUS: dict[int, type[TinkerScriptError]] = {
    401: AuthenticationError,
    403: PermissionDenied,
    404: NotFound,
    407: ServerUnreachable,  # of a proxy; not tried again
    408: ServerUnreachable,  # the request did not arrive in time, as after a laptop slept
    409: Conflict,
    410: EpisodeClosed,
    429: RateLimited,
    502: ServerUnreachable,
    503: ServerUnreachable,
    504: ServerUnreachable,
    507: DiskFull,
}


def error_from_response(
    status: int, body: bytes, headers: Mapping[str, str], *, what: str, url: str
) -> TinkerScriptError:
    """The typed error for a response with a status of 300 and up of ``url``; ``what`` names the
    request. Never raises itself.
    """
    said, request_id = _read_body(body)
    code = said.get("code")
    kind = _BY_CODE.get(code) if isinstance(code, str) else None
    if kind is None:
        other = (
            InternalError
            if status >= 500
            else InvalidRequest
            if status >= 400
            else UnexpectedAnswer
        )
        kind = _BY_STATUS.get(status, other)
    message = said.get("message")
    if not isinstance(message, str) or not message:
        message = f"{what} returned {status}: {excerpt(body)}."
    details = said.get("details")
    return kind(
        message,
        hint=str(said.get("hint") or ("" if said else hint_for(status, body, headers, url))),
        code=code if isinstance(code, str) else None,
        request_id=request_id or headers.get("x-request-id", ""),
        status=status,
        details=details if isinstance(details, dict) else None,
        retry_after_s=retry_after_s(headers),
    )


def _read_body(body: bytes) -> tuple[dict[str, Any], str]:
    """The ``error`` object and the request id of an error body; empty ones when it is not such a
    body.
    """
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}, ""
    if not isinstance(parsed, dict) or not isinstance(parsed.get("error"), dict):
        return {}, ""
    return parsed["error"], str(parsed.get("request_id") or "")


BEFORE_SERVER = (
    "A proxy or a gateway answers in the server's place. Check "
    "that the server behind it runs, and ask whoever runs it."
)
NOT_OURS = (
    "Check that the base URL, TINKERSCRIPT_BASE_URL, is a TinkerScript server's: this answer is of "
    "a proxy, a VPN, a"
    " sign-in page or another program. Behind a portal, use an address that programs may use."
)
HINTS = {
    407: "The proxy wants a user and a password: give proxy='http://user:password@host:port', or "
    "set HTTPS_PROXY so.",
    413: "A proxy before the server refuses bodies of this size: let whoever runs it raise its "
    "limit.",
    502: BEFORE_SERVER,
    503: BEFORE_SERVER,
    504: BEFORE_SERVER,
}
SIGN_IN = re.compile(r"log-?in|sign-?in|oauth|saml|sso|auth", re.IGNORECASE)
MAX_TEXT = 200


def excerpt(body: bytes) -> str:
    """The beginning of a body in one line; of a web page its title, or its text without tags."""
    text = body[:4000].decode("utf-8", "replace")
    if not is_page(body):
        return " ".join(text.split())[:MAX_TEXT] or "an empty body"
    title = re.search(r"<title[^>]*>(.*?)</title", text, re.IGNORECASE | re.DOTALL)
    shown = (
        title[1]
        if title
        else re.sub(r"<(script|style).*?(</\1>|$)|<[^>]*>?", " ", text, flags=re.I | re.S)
    )
    said = " ".join(html.unescape(shown).split())[:MAX_TEXT]
    return f"a web page, {said!r}" if said else "a web page"


def is_page(body: bytes) -> bool:
    """Whether a body is HTML."""
    return (
        body[:200]
        .lstrip(b"\xef\xbb\xbf \t\r\n")
        .lower()
        .startswith((b"<!doctype", b"<html", b"<head", b"<body"))
    )


def hint_for(status: int, body: bytes, headers: Mapping[str, str], url: str) -> str:
    """What to do about a response of ``url`` that has no error body of ours; empty when nothing is
    known.
    """
    if status in HINTS:
        return HINTS[status]
    if 300 <= status < 400 and (target := headers.get("location", "")):
        return _redirect_hint(target, url)
    return NOT_OURS if is_page(body) else ""


def _redirect_hint(target: str, url: str) -> str:
    try:
        to = httpx.URL(url).join(target)
    except httpx.InvalidURL:
        return NOT_OURS
    if SIGN_IN.search(f"{to.host}{to.path}"):
        return f"It leads to a sign-in page, {to.scheme}://{to.host}{to.path}. {NOT_OURS}"
    return f"The server lives elsewhere: use the origin of {to} as the base URL."
