"""Whether the API key that an episode was begun with is still good: it may be revoked while the episode lives."""

import asyncio
from contextlib import suppress
from typing import NoReturn

from channels.db import database_sync_to_async
from django.db import DatabaseError

from api.relay_memory import Memory
from api.relay_refusals import Refusal
from console.users.keys import key_is_good

LOOK_AGAIN_S = 0.25  # each look renews what is remembered: the end is seen within a second


async def caller_check(key_id: str) -> None:
    """Raises Refusal when the key has ended. An episode that a person began has none (empty)."""
    if key_id and not await callers.get(key_id):
        raise Refusal(
            401,
            "invalid_api_key",
            "The API key that this episode was begun with is revoked or expired. Begin one with another key.",
        )


async def caller_ended(key_id: str) -> NoReturn:
    """Wait for the end of a key. Raises Refusal then; without a key, and while the database is away, it goes on."""
    while True:
        await asyncio.sleep(LOOK_AGAIN_S)
        with suppress(DatabaseError):
            await caller_check(key_id)


async def _look_up(key_id: str) -> bool:
    return await database_sync_to_async(key_is_good)(key_id=key_id)


callers: Memory[bool] = Memory(_look_up)
