"""The number of an operation that is refused before its runtime sees it: it is used up there all the same.

A client goes on with the next number, whatever became of this one; a runtime that was not told would wait for it.
"""

import json
import re
from typing import Any

import zstandard

from api.relay.proxy import Receive
from tinkerscript.wire.tinker.ids import field_find, training_head

TRAINING = (
    "forward_backward",
    "optim_step",
    "save_weights",
    "save_weights_for_sampler",
    "save_weights_external",
    "load_weights",
)
BEGINNING_BYTES = 256 << 10  # more than a block of zstd takes, packed
HEAD_BYTES = 1024
BLOCK_WINDOW = b"\x00\x38"  # no flags; a window of 128 KiB, which is the most that a first block has. RFC 8878, 3.1.1.1
SEQ_ID = re.compile(rb'"seq_id"\s*:\s*([0-9]{1,10})\s*[,}]')


class Beginning:
    """``receive`` that keeps how a body begins, which is all that is left of one that is too large."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self._kept = receive, bytearray()

    async def __call__(self) -> dict[str, Any]:
        message = await self._receive()
        self._kept += message.get("body", b"")[: BEGINNING_BYTES - len(self._kept)]
        return message

    def number(self, kind: str, *, is_compressed: bool) -> tuple[str, int] | None:
        """Model and number of the operation; None where the body does not say them at its beginning."""
        if kind not in TRAINING:
            return None
        body = bytes(self._kept)
        if kind == "forward_backward":
            found = training_head(_unpacked(body) if is_compressed else body)
        else:
            model_id, said = field_find(body, "model_id"), SEQ_ID.search(body)
            found = (model_id, int(said[1])) if model_id is not None and said is not None else None
        return found if found is not None and 0 < found[1] < 2**31 else None


def refusal_write(model_id: str, seq_id: int, why: str) -> bytes:
    """What a runtime is told of such an operation."""
    return json.dumps({"model_id": model_id, "seq_id": seq_id, "message": why}).encode()


def _unpacked(body: bytes) -> bytes:
    """How the content of a frame begins. Its head may promise anything: its first block is unpacked without it."""
    try:
        blocks = body[zstandard.frame_header_size(body) :]
        with zstandard.ZstdDecompressor().stream_reader(zstandard.FRAME_HEADER + BLOCK_WINDOW + blocks) as reader:
            return reader.read(HEAD_BYTES)
    except zstandard.ZstdError:
        return b""
