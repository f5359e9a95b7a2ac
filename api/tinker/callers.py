"""Who calls: an API key in ``X-API-Key``, looked up at most once a second."""

from channels.db import database_sync_to_async

from api.relay.cache import TtlCache
from api.rest.authentication import KeyCaller, key_caller
from console.errors import Forbidden, Unauthenticated
from console.server.address_limit import caller_known
from console.tinker.tokens import credential_key
from tinkerscript.wire.account import Scope

MAX_KEY_LENGTH = 1024
NEEDED = frozenset(
    {Scope.SESSIONS_READ, Scope.SESSIONS_WRITE, Scope.EPISODES, Scope.CHECKPOINTS_READ}
)


async def caller_get(headers: list[tuple[bytes, bytes]]) -> KeyCaller:
    """Raises Unauthenticated, Forbidden."""
    secret = (
        next((value for name, value in headers if name == b"x-api-key"), b"")
        .decode("latin-1")
        .strip()
    )
    return await caller_of(secret)


async def caller_of(secret: str) -> KeyCaller:
    """Who has this key. Raises Unauthenticated, Forbidden."""
    if not secret:
        raise Unauthenticated(
            "No API key was sent.", hint="Set TINKER_API_KEY to a key of this server."
        )
    if len(secret) > MAX_KEY_LENGTH or not secret.isascii():
        raise Unauthenticated("This is no API key of this server.")
    caller = await _callers.get(secret)
    caller_known()
    return caller


def _caller(secret: str) -> KeyCaller:
    caller = key_caller(credential_key(secret=secret))
    if missing := sorted(NEEDED - caller.scopes):
        raise Forbidden(
            f"This key has not the scopes that the Tinker wire needs: {', '.join(missing)}."
        )
    return caller


async def _look_up(secret: str) -> KeyCaller:
    return await database_sync_to_async(_caller)(secret)


_callers: TtlCache[KeyCaller] = TtlCache(_look_up)
