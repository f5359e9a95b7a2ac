"""The document of one episode, out of its pack in the object store."""

import json
import zlib
from typing import Any

from console.errors import NotFound, StorageUnavailable
from console.object_store import client as object_store
from console.sessions.episodes.names import pack_key
from console.sessions.models import EpisodeRecord

MAX_DOCUMENT_BYTES = 1 << 30  # unpacked: what is larger is not read into this process


def document_read(record: EpisodeRecord) -> dict[str, Any]:
    """Calls and tokens of an episode whose ``pack`` is set. Raises NotFound, StorageUnavailable."""
    assert record.pack is not None, "the caller looked"
    key = pack_key(record.session, record.pack.sha256)
    packed = object_store.get_range(key, offset=record.pack_offset, size_bytes=record.pack_bytes)
    if packed is None:
        raise NotFound("The tokens of this episode are not in the object store any more.")
    unpack = zlib.decompressobj(wbits=31)  # gzip
    try:
        text = unpack.decompress(packed, MAX_DOCUMENT_BYTES)
        if not unpack.eof:
            raise StorageUnavailable("The tokens of this episode are too large to be read, or cut off.")
        return json.loads(text)
    except (zlib.error, ValueError) as error:
        raise StorageUnavailable(
            f"What the object store has of this episode cannot be read: {error}",
            hint="Look at the store; the archive (GET .../episodes/export) has the same episode once more.",
        ) from error
