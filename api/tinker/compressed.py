"""Bodies in zstd: what a client sends of ``forward_backward`` where ``/client/config`` asks for it,
ten times smaller.

A frame says how large its content is. That is looked at before anything is unpacked, and no more
than it is unpacked. Source: RFC 8878, 3.1.1.
"""

import zstandard

from api.relay.errors import RelayError
from api.relay.proxy import MAX_BODY_BYTES

ENCODING, PATH = b"zstd", "/forward_backward"


def unpacked_size(body: bytes) -> int:
    """How large the frame says that its content is. Raises RelayError: 413 for too much, 400 for no
    such frame.
    """
    try:
        size = zstandard.frame_content_size(body)
    except zstandard.ZstdError:
        raise _unreadable("it does not begin with a frame") from None
    if size < 0:
        raise _unreadable("its frame does not say how large its content is")
    if size > MAX_BODY_BYTES:
        raise RelayError(
            413,
            "request_too_large",
            f"The request's body unpacks to more than {MAX_BODY_BYTES} bytes.",
        )
    return size


def unpacked(body: bytes) -> bytes:
    """The content of a body whose ``unpacked_size`` was asked for. Raises RelayError."""
    try:
        return zstandard.ZstdDecompressor().decompress(body, allow_extra_data=False)
    except zstandard.ZstdError:
        raise _unreadable("it is cut off, holds more than it says, or is not one frame") from None


def _unreadable(why: str) -> RelayError:
    return RelayError(400, "invalid_request", f"The body cannot be unpacked as zstd: {why}.")
