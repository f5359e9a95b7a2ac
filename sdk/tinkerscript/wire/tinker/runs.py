"""A session of the ``tinker`` client as it is read: its models, and what their calls returned."""

from datetime import datetime
from typing import Any

from pydantic import Field

from ..base import Response
from .messages import LoraOptions


class TinkerModelView(Response):
    """A model that a client trains."""

    id: str
    base_model: str
    lora: LoraOptions = Field(description="Rank 0: all weights are trained.")
    source_path: str | None = Field(
        None, description="The tinker:// path of the state that it began from."
    )
    user_metadata: dict[str, Any] | None = None
    steps: int = Field(description="Optimizer steps.")
    calls: int = Field(description="Calls of forward_backward.")
    learning_rate: float | None = Field(None, description="That of its last optimizer step.")
    created_at: datetime
    last_request_at: datetime


class TinkerSamplerView(Response):
    """A sampling session that a client made."""

    id: str
    base_model: str
    model_path: str | None = Field(
        description="The tinker:// path of the weights that it samples; None: the base model."
    )
    created_at: datetime


class TinkerTokenCounts(Response):
    """What runtimes of the session computed for their clients, by the wire's names of usage."""

    training: int
    sampling_prefill: int
    sampling_prefill_cached: int
    sampling_sample: int


class TinkerClientView(Response):
    """A ``ServiceClient`` that the session serves, or served."""

    tinker_session_id: str
    display_name: str
    sdk_version: str
    tags: list[str]
    user_metadata: dict[str, Any]
    finished: str | None = Field(
        None, description="How its client ended it: success, errored, ..., or vanished."
    )
    created_at: datetime


class TinkerRun(Response):
    """``GET /v1/sessions/{id}/tinker``: what a session of kind ``tinker`` does for its clients."""

    clients: list[TinkerClientView] = Field(
        description="Clients of the project share a runtime: the newest 50, in their order."
    )
    samplers: int = Field(description="Sampling sessions of a base model or of a path.")
    newest_samplers: list[TinkerSamplerView] = Field(description="The newest of them.")
    tokens: TinkerTokenCounts
    models: list[TinkerModelView] = Field(description="In the order in which they were made.")


class CallColumn(Response):
    """One measure, an entry per point: that of the last call of the point, and the extremes of all
    of its calls.
    """

    last: list[float | None]
    low: list[float | None]
    high: list[float | None]


class ModelCalls(Response):
    """``GET /v1/sessions/{id}/tinker/{model_id}/calls``: what the calls of a model returned, oldest
    first.

    ``numbers`` and ``steps``: of the point's last call its number among those of its kind, from 1
    on, and how many optimizer steps were done by then, its own included.
    """

    numbers: list[int]
    steps: list[int]
    tokens: list[int]
    columns: dict[str, CallColumn]
    calls_in_all: int
    calls_within: int = Field(description="Calls that the points stand for.")
