"""Checking that a webhook's request is the server's, for whoever receives one."""

import hashlib
import hmac
import re
import time

from tinkerscript.wire.webhooks import WebhookEvent

HEADER = "TinkerScript-Signature"
TOLERANCE_S = 300.0
FORM = re.compile(r"t=([0-9]{1,12}),v1=([0-9a-f]{64})")


class BadSignature(ValueError):
    """Not signed with this secret, or too long ago."""


def sign(body: bytes, secret: str, *, at: int) -> str:
    """The header's value. ``at`` is Unix time."""
    mac = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256)
    return f"t={at},v1={mac.hexdigest()}"


def verify(body: bytes, header: str, secret: str, *, now: float | None = None) -> WebhookEvent:
    """The event in a request's body, exactly as it was received. Raises BadSignature.

    A request from longer than five minutes ago is refused, so that one that was recorded cannot be sent again for ever.
    """
    form = FORM.fullmatch(header)
    if form is None or not hmac.compare_digest(sign(body, secret, at=int(form[1])), header):
        raise BadSignature("the signature is not one of this secret")
    if abs((time.time() if now is None else now) - int(form[1])) > TOLERANCE_S:
        raise BadSignature("the signature is too old")
    return WebhookEvent.model_validate_json(body)
