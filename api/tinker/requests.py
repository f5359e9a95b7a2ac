"""JSON bodies of the Tinker wire that the control plane reads. Unknown fields are refused by name.

Source: the types of the ``tinker`` client, version 0.38.0.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tinkerscript.wire.tinker.messages import LoraOptions

MAX_METADATA = 64


class Body(BaseModel):
    """Base of all. ``type`` is what clients repeat the path in."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    type: str = ""


class ClientVersion(Body):
    """``/client/config`` and ``/client/dynamic_config``."""

    sdk_version: str = ""


class SessionCreateBody(Body):
    """``/create_session``."""

    tags: list[str] = Field([], max_length=MAX_METADATA)
    user_metadata: dict[str, Any] | None = Field(None, max_length=MAX_METADATA)
    sdk_version: str = Field("", max_length=40)
    project_id: str | None = None
    display_name: str | None = Field(None, max_length=200)


class SessionNamed(Body):
    """``/session_heartbeat``."""

    session_id: str


class FinishReason(Body):
    """How a client ends its session."""

    type: Literal["success", "errored", "interrupted"] = "success"


class SessionFinish(Body):
    """``/sessions/{id}/finish``."""

    reason: FinishReason = FinishReason()
    detail: str | None = Field(None, max_length=10_000)


class OptimizerConfig(Body):
    """``adamw``; another one is refused."""

    type: Literal["adamw"] = "adamw"


class ModelCreateBody(Body):
    """``/create_model``."""

    session_id: str
    model_seq_id: int = Field(ge=0, lt=10**9)
    base_model: str = Field(min_length=1, max_length=400)
    user_metadata: dict[str, Any] | None = Field(None, max_length=MAX_METADATA)
    lora_config: LoraOptions | None = None
    optimizer_config: OptimizerConfig | None = None


class ModelLoadBody(Body):
    """``/load_weights`` that makes a model."""

    session_id: str
    model_seq_id: int = Field(ge=0, lt=10**9)
    path: str
    optimizer: bool
    base_model: str | None = None
    user_metadata: dict[str, Any] | None = Field(None, max_length=MAX_METADATA)
    optimizer_config: OptimizerConfig | None = None
    weights_access_token: str | None = None


class ModelNamed(Body):
    """``/get_info``."""

    model_id: str


class SamplerCreateBody(Body):
    """``/create_sampling_session``."""

    session_id: str
    sampling_session_seq_id: int = Field(ge=0, lt=10**9)
    base_model: str | None = None
    model_path: str | None = None


class PathNamed(Body):
    """``/weights_info``."""

    tinker_path: str


class TtlSet(Body):
    """``PUT .../ttl``."""

    ttl_seconds: int | None = None


class Telemetry(BaseModel):
    """``/telemetry``: what a client says of itself."""

    events: list[dict[str, Any]] = Field(max_length=10_000)
    session_id: str = ""
