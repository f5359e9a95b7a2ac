"""Short-lived tokens in the place of API keys: what ``/auth/token`` gives, and who sends one.

A token is a JSON Web Token (RFC 7519), signed by HMAC-SHA-256 with a key that is made of the
server's secret. It names an API key and is as good as that key is at each request: revoking the key
ends its tokens.
"""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

from django.conf import settings

from console.errors import Unauthenticated
from console.users.keys import key_authenticate, key_good_get
from console.users.models import ApiKey, User

LIFETIME_S = 3600
PREFIX = "eyJ"  # how every token begins: the JSON of its head in base64
HEAD = {"alg": "HS256", "typ": "JWT"}


def token_make(*, key: ApiKey) -> str:
    """A token for the bearer of ``key``; its claims are what clients read of it."""
    now = int(time.time())
    claims = {
        "sub": user_urn(key.user), "org_id": key.project_id, "email": key.user.email, "kid": key.id, "iat": now,
        "exp": now + LIFETIME_S,
    }  # fmt: skip
    signed = f"{_encoded(HEAD)}.{_encoded(claims)}"
    return f"{signed}.{_signature(signed, settings.SECRET_KEY)}"


def credential_key(*, secret: str) -> ApiKey:
    """The API key whose secret, or whose token, this is. Raises Unauthenticated."""
    if not secret.startswith(PREFIX):
        return key_authenticate(secret=secret)
    signed, _, signature = secret.rpartition(".")
    wanted = [
        _signature(signed, each) for each in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    ]
    if not any([hmac.compare_digest(signature.encode(), each.encode()) for each in wanted]):
        raise Unauthenticated(
            "This is no token of this server.", hint="Set TINKER_API_KEY to a key of this server."
        )
    claims = json.loads(base64.urlsafe_b64decode(signed.partition(".")[2] + "=="))
    if claims["exp"] <= time.time():
        raise Unauthenticated("This token has expired.", hint="Ask /auth/token for another.")
    return key_good_get(key_id=claims["kid"])


def user_urn(user: User) -> str:
    """How the wire names a person."""
    return f"tml:user:{user.pk}"


def _encoded(value: dict[str, Any]) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode())


def _signature(signed: str, secret: str) -> str:
    key = hmac.new(secret.encode(), b"tinker-token", hashlib.sha256).digest()
    return _base64(hmac.new(key, signed.encode(), hashlib.sha256).digest())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
