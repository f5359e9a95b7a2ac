"""How many clients may watch at once: per credential, and in all of this web process."""

import hashlib
from collections.abc import Mapping
from typing import Any

from console.errors import RateLimited
from console.server.tally import Tally

MAX_WATCHERS, MAX_PER_CREDENTIAL = 4_096, 100


class Watchers:
    """The counts of this web process.

    All of it runs on the event loop, in memory: no lock is needed, and nothing waits.
    """

    def __init__(self) -> None:
        self.by_credential = Tally()

    def enter(self, credential: str) -> None:
        """Count one more. Raises RateLimited, and counts nothing, when there are too many."""
        of_credential, of_all = self.by_credential.count(credential, 1)
        if of_credential <= MAX_PER_CREDENTIAL and of_all <= MAX_WATCHERS:
            return
        self.leave(credential)
        if of_credential > MAX_PER_CREDENTIAL:
            raise RateLimited(
                f"{MAX_PER_CREDENTIAL} connections of this key or sign-in watch already."
            )
        raise RateLimited("The server has as many watchers as it takes. Try again in a moment.")

    def leave(self, credential: str) -> None:
        """Count one less."""
        self.by_credential.count(credential, -1)


def credential_of(scope: Mapping[str, Any]) -> str:
    """What stands for the key or sign-in of a handshake, without being it."""
    headers = dict(scope["headers"])
    return hashlib.sha256(headers.get(b"authorization") or headers.get(b"cookie", b"")).hexdigest()


watchers = Watchers()
