"""Responses that no TinkerScript server wrote: pages of proxies, gateways and portals, and what to
do about them.
"""

import html
import re
from collections.abc import Mapping

import httpx

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
