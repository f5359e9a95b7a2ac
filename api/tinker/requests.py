"""JSON bodies of the Tinker wire that the control plane reads. Unknown fields are refused by name,
but for those of ``Lenient``.

Source: the types of the ``tinker`` client, version 0.38.0.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from api.views.queries import Time
from tinkerscript.wire.tinker.messages import LoraOptions

MAX_METADATA = 64
MAX_NAMED = 200  # of what a search names


def _json_check(value: dict[str, Any]) -> dict[str, Any]:
    """pydantic reads NaN and infinity, which no JSON has and no database keeps."""
    json.dumps(value, allow_nan=False)
    return value


Metadata = Annotated[dict[str, Any], AfterValidator(_json_check), Field(max_length=MAX_METADATA)]


class Body(BaseModel):
    """Base of all. ``type`` is what clients repeat the path in."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    type: str = ""


class Lenient(Body):
    """What a newer client says more is ignored: these calls come first and last, and refused they
    end it.
    """

    model_config = ConfigDict(extra="ignore")


class ClientVersion(Lenient):
    """``/client/config`` and ``/client/dynamic_config``."""

    sdk_version: str = ""


class SessionCreateBody(Body):
    """``/create_session``."""

    tags: list[str] = Field([], max_length=MAX_METADATA)
    user_metadata: Metadata | None = None
    sdk_version: str = Field("", max_length=40)
    project_id: str | None = None
    display_name: str | None = Field(None, max_length=200)


class SessionNamed(Lenient):
    """``/session_heartbeat``."""

    session_id: str


class FinishReason(Lenient):
    """How a client ends its session."""

    type: Literal["success", "errored", "interrupted"] = "success"


class SessionFinish(Lenient):
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
    user_metadata: Metadata | None = None
    lora_config: LoraOptions | None = None
    optimizer_config: OptimizerConfig | None = None


class ModelLoadBody(Body):
    """``/load_weights`` that makes a model."""

    session_id: str
    model_seq_id: int = Field(ge=0, lt=10**9)
    path: str
    optimizer: bool
    base_model: str | None = None
    user_metadata: Metadata | None = None
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


class SamplerJoin(Body):
    """``/join_sampling_session``."""

    sampling_session_id: str


class ProjectNamed(Body):
    """``PUT /sessions/{id}/project``."""

    project_id: str


class SearchOwner(Body):
    """Whose: the caller's own, every member's of the project, or those of ``owner_urns``."""

    type: Literal["own", "accessible", "user"] = "own"
    owner_urns: list[str] | None = Field(None, min_length=1, max_length=10)


class StatusQuery(Body):
    """One status that is searched for."""

    type: Literal["active", "cancelled", "failed", "client_finished"]
    reasons: list[Literal["success", "errored", "interrupted"]] | None = Field(
        None, min_length=1, max_length=3
    )


class SearchCursor(Body):
    """Where the next page begins."""

    last_created_at: Time
    last_session_id: str = Field("", max_length=200)
    last_checkpoint_uuid: str = Field("", max_length=200)


class Search(Body):
    """What both searches share."""

    project_ids: list[str] | None = Field(None, max_length=MAX_NAMED)
    user_metadata: dict[str, str] = Field({}, max_length=MAX_METADATA)
    owner: SearchOwner = SearchOwner()
    limit: int = Field(50, ge=1, le=200)
    cursor: SearchCursor | None = None


class SessionSearch(Search):
    """``/sessions/search``."""

    session_id: str | None = None
    display_name: str | None = Field(None, min_length=1, max_length=200)
    statuses: list[StatusQuery] | None = Field(None, min_length=1, max_length=16)


class CheckpointSearch(Search):
    """``/search_checkpoints``, a call of 0.39."""

    checkpoint_type: Literal["training", "sampler", "external"] | None = None
    base_models: list[str] | None = Field(None, max_length=MAX_NAMED)


class ExternalUploadStart(Body):
    """``/external_weights_upload_start``, a call of 0.39."""

    base_model: str = Field(min_length=1, max_length=400)
    lora_config: LoraOptions
    destination_project_id: str | None = None


class ExternalUploadFinish(Body):
    """``/external_weights_upload_finish``, a call of 0.39."""

    upload_id: str = Field(max_length=80)


class WeightsCopy(Body):
    """``/copy_weights``: to a project, or to a session under the number of a training run."""

    session_id: str | None = None
    model_seq_id: int | None = Field(None, ge=0, lt=10**9)
    destination_project_id: str | None = None
    source_path: str
    ttl_seconds: int | None = None
    weights_access_token: str | None = None


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
