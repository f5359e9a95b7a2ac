"""The key of one episode: signed, opaque, checkable without a database.

    key = "tml-ep-" + b64url(payload) + "." + b64url(HMAC-SHA256(session_key, payload))
    payload = "session_id|episode_id|expires_at|key_id"
    session_key = HMAC-SHA256(server_secret, "episode-key|" + session_id)

The control plane derives ``session_key`` from its secret; the session's runtime is given that one
key and no other, so that it can make keys for its own session alone. Nothing signed carries an
address.
"""

import base64
import hashlib
import hmac
from dataclasses import dataclass

PREFIX = "tml-ep-"
SERVING = "serving"  # in the place of an episode: every call of a session that serves a model


class BadEpisodeKey(ValueError):
    """Malformed, signed by someone else, or past its time. ``expired`` is True in the last case."""

    def __init__(self, reason: str, *, expired: bool = False) -> None:
        super().__init__(reason)
        self.expired = expired


@dataclass(frozen=True)
class EpisodeClaim:
    """What a key grants. ``expires_at`` is Unix time in whole seconds.

    ``key_id`` is the API key that began the episode, or ``user:<id>:<project>:<membership>`` of a
    person: once that one ends, so does this.
    """

    session_id: str
    episode_id: str
    expires_at: int
    key_id: str = ""


def session_key(server_secret: bytes, session_id: str) -> bytes:
    """The signing key of one session."""
    return hmac.digest(server_secret, b"episode-key|" + session_id.encode(), hashlib.sha256)


def sign(key: bytes, claim: EpisodeClaim) -> str:
    """Make the key of an episode."""
    payload = f"{claim.session_id}|{claim.episode_id}|{claim.expires_at}|{claim.key_id}".encode()
    return f"{PREFIX}{_b64(payload)}.{_b64(hmac.digest(key, payload, hashlib.sha256))}"


def read(token: str) -> EpisodeClaim:
    """What a key claims, unverified: enough to find the session whose key verifies it. Raises
    BadEpisodeKey.
    """
    return _parse(token)[0]


def verify(token: str, *keys: bytes, now: float) -> EpisodeClaim:
    """The claim of a key that one of ``keys`` signed and whose time has not passed. Raises
    BadEpisodeKey.
    """
    claim, payload, signature = _parse(token)
    if not any(
        hmac.compare_digest(signature, hmac.digest(key, payload, hashlib.sha256)) for key in keys
    ):
        raise BadEpisodeKey("the signature does not match")
    if now >= claim.expires_at:
        raise BadEpisodeKey("the key has expired", expired=True)
    return claim


def _parse(token: str) -> tuple[EpisodeClaim, bytes, bytes]:
    try:
        payload_text, signature_text = token.removeprefix(PREFIX).split(".")
        payload, signature = _unb64(payload_text), _unb64(signature_text)
        session_id, episode_id, expires_at, key_id = payload.decode().split("|")
        return EpisodeClaim(session_id, episode_id, int(expires_at), key_id), payload, signature
    except ValueError:
        raise BadEpisodeKey("not an episode key") from None


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _unb64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
