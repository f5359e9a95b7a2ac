"""The secrets that the control plane shares with one session's gateway, made of the server's
own.
"""

import hashlib
import hmac

from django.conf import settings

from tinkerscript.wire import episode_key


def relay_key(*, session_id: str, lease_sha256: str) -> str:
    """What the control plane sends in X-Relay-Key to this session's gateway of this launch, and to
    no other's.

    ``lease_sha256`` stands for the launch: each has a lease of its own, of 256 random bits.
    """
    named = f"relay-key|{session_id}|{lease_sha256}".encode()
    return hmac.new(settings.SECRET_KEY.encode(), named, hashlib.sha256).hexdigest()


def episode_signing_keys(*, session_id: str) -> list[bytes]:
    """The key that signs this session's episode keys; after it the one that signed them before a
    rotation, if any.
    """
    secrets_of_server = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return [episode_key.session_key(secret.encode(), session_id) for secret in secrets_of_server]
