"""Keeping where the audit logs end, every hour, in the object store and in the server's log."""

import hashlib
import logging
from collections.abc import Iterator

from django.utils import timezone

from console.audit.services import heads_text
from console.object_store import client as object_store

log = logging.getLogger(__name__)

PREFIX = "audit/heads/"


def audit_heads_keep() -> None:
    """Write this hour's heads, once; whichever process comes first does it. Raises
    StorageUnavailable.
    """
    key = f"{PREFIX}{timezone.now():%Y-%m-%dT%H}.txt"
    if kept_here.get("key") == key:
        return
    if object_store.size_bytes(key) is None and (text := heads_text()):
        object_store.put(key, text.encode())
        log.info(
            "the heads of the audit log are kept as %s, sha256 %s",
            key,
            hashlib.sha256(text.encode()).hexdigest(),
        )
    kept_here["key"] = key


def audit_heads_kept() -> Iterator[str]:
    """Every line that was kept in the object store. Raises StorageUnavailable."""
    for key in object_store.keys_under(PREFIX):
        yield from (object_store.get(key) or b"").decode().splitlines()


kept_here: dict[str, str] = {}  # the key that this process kept or found last
