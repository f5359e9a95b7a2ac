"""How many clients may watch at once: per credential, and in all of this process."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

from console.errors import RateLimited

MAX_WATCHERS, MAX_PER_CREDENTIAL = 4_096, 100


class Watchers:
    """The counts of this process. All of it runs on the event loop: no lock is needed."""

    def __init__(self) -> None:
        self.by_credential: Counter[bytes] = Counter()

    def enter(self, credential: bytes) -> None:
        """Count one more. Raises RateLimited, and counts nothing, when there are too many."""
        if self.by_credential[credential] >= MAX_PER_CREDENTIAL:
            raise RateLimited(f"{MAX_PER_CREDENTIAL} connections of this key or sign-in watch already.")
        if self.by_credential.total() >= MAX_WATCHERS:
            raise RateLimited("The server has as many watchers as it takes. Try again in a moment.")
        self.by_credential[credential] += 1

    def leave(self, credential: bytes) -> None:
        """Count one less."""
        self.by_credential[credential] -= 1
        if self.by_credential[credential] <= 0:
            del self.by_credential[credential]


def credential_of(scope: Mapping[str, Any]) -> bytes:
    """What stands for the key or sign-in of a handshake, without being it."""
    headers = dict(scope["headers"])
    return hashlib.sha256(headers.get(b"authorization") or headers.get(b"cookie", b"")).digest()


watchers = Watchers()
