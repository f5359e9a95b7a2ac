"""Names of the Tinker wire that control plane and runtime share, and how they are found without
reading tensors.

A name is read once, where it comes in, and is a value of its type from there on; ``parse`` returns
None for no name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

SESSION, TINKER_SESSION, NUMBER = (
    r"ses_[A-Za-z0-9]{1,36}",
    r"tnk_[A-Za-z0-9]{1,40}",
    r"0|[1-9][0-9]{0,9}",
)


@dataclass(frozen=True)
class ModelId:
    """``{Tinker session}:train:{number}``: a model. Clients make these themselves."""

    tinker_session: str
    number: int

    @classmethod
    def parse(cls, text: str) -> "ModelId | None":
        found = re.fullmatch(rf"({TINKER_SESSION}):train:({NUMBER})", text)
        return cls(found[1], int(found[2])) if found else None

    def __str__(self) -> str:
        return f"{self.tinker_session}:train:{self.number}"


@dataclass(frozen=True)
class SamplerId:
    """``{Tinker session}:sample:{number}:{session}``: a sampling session, and our session, whose
    runtime samples.
    """

    tinker_session: str
    number: int
    session_id: str

    @classmethod
    def parse(cls, text: str) -> "SamplerId | None":
        found = re.fullmatch(rf"({TINKER_SESSION}):sample:({NUMBER}):({SESSION})", text)
        return cls(found[1], int(found[2]), found[3]) if found else None

    def __str__(self) -> str:
        return f"{self.tinker_session}:sample:{self.number}:{self.session_id}"


@dataclass(frozen=True)
class PromiseId:
    """``{session}|train:{model}:{operation's number}`` or ``{session}|sample:{runtime's
    start}:{number}``.
    """

    session_id: str
    kind: str
    of: str
    number: int

    @classmethod
    def parse(cls, text: str) -> "PromiseId | None":
        found = re.fullmatch(
            rf"({SESSION})\|(train|sample):([0-9a-f]{{1,10}}|{TINKER_SESSION}:train:(?:{NUMBER}))"
            rf":({NUMBER})",
            text,
        )
        return cls(found[1], found[2], found[3], int(found[4])) if found else None

    def __str__(self) -> str:
        return f"{self.session_id}|{self.kind}:{self.of}:{self.number}"

    @property
    def made_model(self) -> ModelId | None:
        """The model whose making is promised."""
        return ModelId.parse(self.of) if self.kind == "train" and self.number == 0 else None


def client_of(name: str) -> str:
    """The Tinker session that a model or a sampler is of, by its id."""
    return name.partition(":")[0]


# of a request in OpenAI's or Anthropic's dialect: the sampling session it is for
SAMPLER_HEADER = "X-Tinker-Sampler"
CALLER_HEADER = "X-Tinker-Caller"  # of such a request: the API key that sends it, by its id
HEAD_FIELDS = 64  # of a message, in which model and number are: clients write their fields in order
CHECKPOINT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
TINKER_PATH = re.compile(
    r"tinker://(?P<model_id>[^/]{1,80})/(?P<segment>weights|sampler_weights|external_weights)/(?P<name>[^/]{1,128})"
)


def training_head(body: bytes) -> tuple[str, int] | None:
    """``(model_id, seq_id)`` of a ForwardBackwardRequest: its fields 1 and 2, nothing else of it is
    read.

    None where the bytes are no such message, or do not begin with them.
    Source: protobuf.dev/programming-guides/encoding.
    """
    model_id, seq_id, at = None, 0, 0
    fields = 0
    while at < len(body) and (fields := fields + 1) <= HEAD_FIELDS:
        tag, at = _varint(body, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = _varint(body, at)
            if number == 2:
                seq_id = value
        elif kind == 2:
            length, at = _varint(body, at)
            if at < 0 or at + length > len(body):
                return None
            if number == 1:
                try:
                    model_id = body[at : at + length].decode()
                except UnicodeDecodeError:
                    return None
            at += length
        else:
            at += {1: 8, 5: 4}.get(kind, len(body) + 1)
        if at < 0 or at > len(body):
            return None
        # clients write the fields in order: the data come after these two
        if number >= 2 and model_id is not None:
            break
    return None if model_id is None or not 0 <= seq_id < 2**31 else (model_id, seq_id)


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """The number at ``at`` and where it ends; -1 where it does not."""
    value = shift = 0
    while 0 <= at < len(body) and shift < 64:
        byte = body[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
    return 0, -(1 << 62)


def field_find(body: bytes, name: str) -> str | None:
    """The string field ``name`` of a JSON object, found without parsing it; the first of several.

    Inside a string its quotes would be escaped, so that text of a user is never taken for the
    field.
    """
    found = re.search(rb'"' + name.encode() + rb'"\s*:\s*"([^"\\]{1,300})"', body)
    return found[1].decode(errors="replace") if found else None


def user_error(message: str, category: str = "user") -> Mapping[str, str]:
    """How a future says that its operation failed."""
    return {"error": message, "category": category}
