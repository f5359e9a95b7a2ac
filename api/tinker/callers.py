"""Who calls: an API key, looked up at most once a second."""

from channels.db import database_sync_to_async

from api.rest.authentication import KeyCaller, key_caller
from console.errors import Forbidden, NotFound, Unauthenticated
from console.server.address_limit import caller_known
from console.server.ttl_cache import TtlCache
from console.tinker.tokens import credential_key
from tinkerscript.wire.account import Scope

MAX_KEY_LENGTH = 1024
NEEDED = frozenset(
    {Scope.SESSIONS_READ, Scope.SESSIONS_WRITE, Scope.EPISODES, Scope.CHECKPOINTS_READ}
)


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


_callers: TtlCache[str, KeyCaller] = TtlCache(database_sync_to_async(_caller))


def project_check(caller: KeyCaller, project_id: str | None) -> None:
    """Raises NotFound for another project than the key's; None names none."""
    if project_id not in (None, caller.project.id):
        raise NotFound(
            f"There is no project {project_id} for this key, which acts in {caller.project.id} "
            "alone."
        )
