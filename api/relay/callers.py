"""Who calls the relay: an episode's key, verified without a database, and whether the API key or
the person that began the episode may still do so, which both may lose while it is open.

The key names its session, whose signing key the server's secret gives.
"""

import asyncio
import time
from contextlib import suppress
from functools import lru_cache
from typing import NoReturn

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import DatabaseError

from api.relay.errors import RelayError
from console.server.address_limit import caller_known
from console.server.ttl_cache import TtlCache
from console.sessions.runtime.gateway_keys import episode_signing_keys
from console.users.keys import caller_is_good
from tinkerscript.wire.episode_key import SERVING, BadEpisodeKey, EpisodeClaim, read, verify

MAX_KEY_LENGTH = 1024
POLL_INTERVAL_S = 0.25  # each check refreshes the cache: a revoked key is noticed within a second


def verified_claim(headers: list[tuple[bytes, bytes]]) -> EpisodeClaim:
    """The claim of the request's episode key, with signature and expiry checked. Raises RelayError:
    401 or 410.
    """
    token = key_sent(headers)
    if not token:
        raise _invalid_key("No API key was sent.")
    try:
        if len(token) > MAX_KEY_LENGTH or not token.isascii():
            raise BadEpisodeKey("not an episode key")
        claim = verify(token, *signing_keys(read(token).session_id), now=time.time())
    except BadEpisodeKey as error:
        if error.expired:
            if read(token).episode_id == SERVING:
                what = (
                    "This key of a served model has expired: POST "
                    "/v1/sessions/{id}/serving-keys makes another."
                )
                raise RelayError(401, "invalid_api_key", what) from None
            raise RelayError(
                410, "episode_closed", "This episode is over: begin another one."
            ) from None
        raise _invalid_key(f"The API key is not an episode's: {error}.") from None
    caller_known()
    return claim


def key_sent(headers: list[tuple[bytes, bytes]]) -> str:
    """The key of a request, an episode's or another; empty without one."""
    kind, _, bearer = header_value(headers, b"authorization").partition(" ")
    token = bearer.strip() if kind.lower() == "bearer" else ""
    # where Anthropic's clients put theirs
    return token or header_value(headers, b"x-api-key").strip()


def header_value(headers: list[tuple[bytes, bytes]], wanted: bytes) -> str:
    """The first of that name as text; empty without one."""
    return next((value for name, value in headers if name == wanted), b"").decode("latin-1")


@lru_cache(maxsize=4096)
def signing_keys(session_id: str) -> list[bytes]:
    """The keys that episodes of this session may be signed with, cached for the life of the
    process.
    """
    return episode_signing_keys(session_id=session_id)


def _invalid_key(message: str) -> RelayError:
    hint = (
        "Use the api_key that begin_episode() gave; to begin one you need a key from "
        f"{settings.PUBLIC_URL}/keys"
    )
    return RelayError(401, "invalid_api_key", f"{message} {hint}.")


async def caller_check(caller_id: str) -> None:
    """Raises RelayError for a revoked or expired key, and for a person who may no longer run
    episodes.

    Keys of episodes that a person began before callers had ids have none (empty); they last until
    they expire.
    """
    if caller_id and not await callers.get(caller_id):
        raise RelayError(
            401,
            "invalid_api_key",
            "The API key that this episode was begun with is revoked or expired, or the person who "
            "began it "
            "has left the project. Begin one with another key.",
        )


async def caller_ended(caller_id: str) -> NoReturn:
    """Wait until ``caller_check`` refuses, then raise its RelayError. While the database is
    unreachable it goes on waiting.
    """
    while True:
        await asyncio.sleep(POLL_INTERVAL_S)
        with suppress(DatabaseError):
            await caller_check(caller_id)


def _is_good(caller_id: str) -> bool:
    return caller_is_good(caller_id=caller_id)


callers: TtlCache[str, bool] = TtlCache(database_sync_to_async(_is_good))
