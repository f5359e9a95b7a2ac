"""What control plane and runtime tell each other of the models, samplers and checkpoints of Tinker
clients.
"""

from typing import Literal

from pydantic import Field

from ..base import Request, Response
from ..runtime import StoredFile
from .ids import CHECKPOINT_NAME

Segment = Literal["weights", "sampler_weights", "external_weights"]
MAX_RANK = 256


class LoraOptions(Request):
    """``lora_config`` of ``create_model``. Without a seed the model's number in its session is the
    seed.
    """

    rank: int = Field(ge=0, le=1024)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    train_unembed: bool = True
    train_mlp: bool = True
    train_attn: bool = True


class ModelSource(Request):
    """A saved state that a model begins from: its files, to be read by presigned URL."""

    path: str
    checkpoint_id: str
    files: list[StoredFile]
    optimizer: bool


class ModelCreate(Request):
    """What the control plane tells a runtime of a model: its first operation."""

    model_id: str
    base_model: str
    lora: LoraOptions
    source: ModelSource | None = None
    made_before: bool = Field(
        False, description="A runtime has had it: one that does not know it lost its volume."
    )
    exact_seeds: bool = Field(
        False, description="Of samples: the client's seeds are taken as they are."
    )


class RefusedOperation(Request):
    """An operation that the control plane refused before a runtime saw it."""

    model_id: str
    seq_id: int = Field(ge=1, lt=2**31)
    message: str = Field(max_length=4000)


class SamplerCreate(Request):
    """What the control plane tells a runtime of a sampling session: the base model, or a checkpoint
    under a name.
    """

    sampling_session_id: str
    base_model: str
    model_path: str | None = None
    checkpoint_id: str | None = None
    files: list[StoredFile] = []
    exact_seeds: bool = Field(
        False, description="Of samples: the client's seeds are taken as they are."
    )


class NamedCheckpointOpen(Request):
    """``POST /v1/runtime/named-checkpoints``: a runtime is about to store what its client gave a
    name.
    """

    model_id: str
    segment: Segment
    name: str = Field(pattern=f"^{CHECKPOINT_NAME.pattern}$")
    seq_id: int = Field(0, ge=0, description="The number of the operation that saves it.")
    ttl_seconds: int | None = Field(None, ge=1)
    overwrite: bool = False
    user_metadata: dict[str, str] = {}
    lora: LoraOptions


class NamedStateFind(Request):
    """``POST /v1/runtime/named-states``: a runtime is about to load a saved state into a model that
    is there.
    """

    model_id: str
    path: str = Field(max_length=400)


class NamedState(Response):
    """The state's files, or why there are none: ``refusal`` is for the client that asked."""

    checkpoint_id: str | None = None
    files: list[StoredFile] = []
    refusal: str = ""


class NamedCheckpoint(Response):
    """Where to store it, or why not: ``refusal`` is for the client that asked."""

    checkpoint_id: str | None = None
    is_stored: bool = Field(False, description="This very operation has stored it already.")
    refusal: str = ""
