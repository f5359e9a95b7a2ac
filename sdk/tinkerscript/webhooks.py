"""Checking that a webhook's request is the server's, for the program that receives one."""

import hashlib
import hmac
import re
import time

from tinkerscript.wire.webhooks import WebhookEvent

HEADER = "TinkerScript-Signature"
TOLERANCE_S = 300.0
FORM = re.compile(r"t=([0-9]{1,12})((?:,v1=[0-9a-f]{64}){1,4})")


class BadSignature(ValueError):
    """Not signed with this secret, or too long ago."""


def sign(body: bytes, *secrets: str, at: int) -> str:
    """The header's value, with a signature of each secret. ``at`` is Unix time."""
    return f"t={at}" + "".join(f",v1={_mac(body, secret, at)}" for secret in secrets)


def verify(body: bytes, header: str, secret: str, *, now: float | None = None) -> WebhookEvent:
    """The event in a request's body, exactly as it was received. Raises BadSignature.

    A request from longer than five minutes ago is refused, so that one that was recorded cannot be
    sent again for ever. After a rotation of the server's secret there are two signatures: one of
    them must be this secret's.
    """
    form = FORM.fullmatch(header)
    at, signatures = (int(form[1]), form[2].split(",v1=")[1:]) if form else (0, [])
    if not any(hmac.compare_digest(_mac(body, secret, at), signature) for signature in signatures):
        raise BadSignature("the signature is not one of this secret")
    if abs((time.time() if now is None else now) - at) > TOLERANCE_S:
        raise BadSignature("the signature is too old")
    return WebhookEvent.model_validate_json(body)


def _mac(body: bytes, secret: str, at: int) -> str:
    return hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
