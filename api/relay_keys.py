"""Checking an episode key without a database: it names its session, and the server's secret gives that one's key."""

import time
from functools import lru_cache

from django.conf import settings

from api.relay_refusals import Refusal
from console.sessions.leases import episode_signing_keys
from tinkerscript.wire.episode_key import BadEpisodeKey, EpisodeClaim, read, verify

KEY_LENGTH_MAX = 1024


def claim_of(headers: list[tuple[bytes, bytes]]) -> EpisodeClaim:
    """What the request's episode key says, once its signature and time are checked. Raises Refusal: 401 or 410."""
    kind, _, bearer = _value(headers, b"authorization").partition(" ")
    token = bearer.strip() if kind.lower() == "bearer" else ""
    token = token or _value(headers, b"x-api-key").strip()  # where Anthropic's clients put theirs
    if not token:
        raise _refused("No API key was sent.")
    try:
        if len(token) > KEY_LENGTH_MAX or not token.isascii():
            raise BadEpisodeKey("not an episode key")
        return verify(token, *_signing_keys(read(token).session_id), now=time.time())
    except BadEpisodeKey as error:
        if error.expired:
            raise Refusal(410, "episode_closed", "This episode is over: begin another one.") from None
        raise _refused(f"The API key is not an episode's: {error}.") from None


def _value(headers: list[tuple[bytes, bytes]], wanted: bytes) -> str:
    return next((value for name, value in headers if name == wanted), b"").decode("latin-1")


@lru_cache(maxsize=4096)
def _signing_keys(session_id: str) -> list[bytes]:
    return episode_signing_keys(session_id=session_id)


def _refused(message: str) -> Refusal:
    hint = f"Use the api_key that begin_episode() gave; to begin one you need a key from {settings.PUBLIC_URL}/keys"
    return Refusal(401, "invalid_api_key", f"{message} {hint}.")
