"""Whether the API key that an episode was begun with is still good: it may be revoked while the episode lives."""

from channels.db import database_sync_to_async

from api.relay_memory import Memory
from api.relay_refusals import Refusal
from console.users.keys import key_is_good


async def caller_check(key_id: str) -> None:
    """Raises Refusal when the key has ended. An episode that a person began has none (empty)."""
    if key_id and not await callers.get(key_id):
        raise Refusal(
            401,
            "invalid_api_key",
            "The API key that this episode was begun with is revoked or expired. Begin one with another key.",
        )


async def _look_up(key_id: str) -> bool:
    return await database_sync_to_async(key_is_good)(key_id=key_id)


callers: Memory[bool] = Memory(_look_up)
