"""A request for a runtime: what of it is read here, once, from bytes that are passed on as they
came.

A training operation uses its number up whatever becomes of it: a client goes on with the next one,
for which a runtime that was not told of a refusal would wait.

Bodies in zstd are what a client sends of ``forward_backward`` where ``/client/config`` asks for it,
ten times smaller. A frame says how large its content is. That is looked at before anything is
unpacked, and no more than it is unpacked. Source: RFC 8878, 3.1.1.
"""

import re
from dataclasses import dataclass

import zstandard

from api.relay.errors import RelayError
from api.relay.proxy import MAX_BODY_BYTES
from api.rest.parsing import NUL, NUL_PROBLEM
from console.errors import InvalidRequest, NotFound
from tinkerscript.wire.tinker.ids import ModelId, PromiseId, SamplerId, field_find, training_head

TRAINING = (
    "forward_backward",
    "optim_step",
    "save_weights",
    "save_weights_for_sampler",
    "save_weights_external",
    "load_weights",
)
FUTURES = ("retrieve_future", "retrieve_futures", "cancel_future")
Named = ModelId | SamplerId | PromiseId
FIELDS: dict[str, tuple[str, type[Named]]] = {
    "asample": ("sampling_session_id", SamplerId),
    "retrieve_futures": ("sampling_session_id", SamplerId),
    "retrieve_future": ("request_id", PromiseId),
    "cancel_future": ("request_id", PromiseId),
}
COMPRESSED, COMPRESSED_PATH = b"zstd", "/forward_backward"
HEAD_BYTES = 1024
# no flags; a window of 128 KiB, which is the most that a first block has. RFC 8878, 3.1.1.1
BLOCK_WINDOW = b"\x00\x38"
SEQ_ID = re.compile(rb'"seq_id"\s*:\s*([0-9]{1,10})\s*[,}]')
SAMPLES = re.compile(rb'"num_samples"\s*:\s*([1-9][0-9]{0,8})\s*[,}]')


@dataclass(frozen=True)
class Operation:
    """``of`` names what it is for. ``seq_id`` is a training operation's number, 0 where its
    beginning has none; ``samples`` is how many an ``asample`` wants.
    """

    kind: str
    of: Named
    seq_id: int = 0
    samples: int = 0

    @property
    def missing(self) -> NotFound:
        """The refusal where there is no such thing, or it is another project's."""
        return _missing(type(self.of), str(self.of))


def operation_read(kind: str, body: bytes) -> Operation:
    """Raises InvalidRequest, NotFound."""
    field, form = FIELDS.get(kind, ("model_id", ModelId))
    seq_id = 0
    if kind == "forward_backward":
        head = training_head(body)
        if head is None:
            raise InvalidRequest("The body is no ForwardBackwardRequest in protobuf.")
        name, seq_id = head
    else:
        found = field_find(body, field)
        if found is None:
            raise InvalidRequest(f"The body is a JSON object with {field}.")
        name = found
        if kind in TRAINING and (said := SEQ_ID.search(body)):
            seq_id = int(said[1])
    if NUL in name:
        raise InvalidRequest(f"{field} {NUL_PROBLEM}.")
    of = form.parse(name)
    if of is None:
        raise _missing(form, name)
    asked = SAMPLES.search(body) if kind == "asample" else None
    return Operation(kind, of, seq_id, int(asked[1]) if asked else int(kind == "asample"))


def _missing(form: type[Named], name: str) -> NotFound:
    if form is ModelId:
        return NotFound(f"There is no model {name}.")
    return NotFound(f"There is no such {'sampling session' if form is SamplerId else 'request'}.")


def operation_begun(kind: str, beginning: bytes, *, is_compressed: bool) -> Operation | None:
    """The operation whose number a body uses up that is refused; None where its beginning does not
    tell model and number.
    """
    try:
        found = operation_read(kind, _beginning_unpacked(beginning) if is_compressed else beginning)
    except (InvalidRequest, NotFound):
        return None
    return found if 0 < found.seq_id < 2**31 else None


def _beginning_unpacked(body: bytes) -> bytes:
    """How the content of a frame begins. Its head may promise anything: its first block is unpacked
    without it.
    """
    try:
        blocks = body[zstandard.frame_header_size(body) :]
        with zstandard.ZstdDecompressor().stream_reader(
            zstandard.FRAME_HEADER + BLOCK_WINDOW + blocks
        ) as reader:
            return reader.read(HEAD_BYTES)
    except zstandard.ZstdError:
        return b""


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
