"""Whether the API key or the person that began an episode may still do so: both may lose that while
it is open.
"""

import asyncio
from contextlib import suppress
from typing import NoReturn

from channels.db import database_sync_to_async
from django.db import DatabaseError

from api.relay.cache import TtlCache
from api.relay.errors import RelayError
from console.users.keys import caller_is_good

POLL_INTERVAL_S = 0.25  # each check refreshes the cache: a revoked key is noticed within a second


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


async def _look_up(caller_id: str) -> bool:
    return await database_sync_to_async(caller_is_good)(caller_id=caller_id)


callers: TtlCache[bool] = TtlCache(_look_up)
