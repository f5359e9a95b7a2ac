"""Serving sessions: an engine without a trainer, from a base model or a ``model`` checkpoint. And
calls of models that stand elsewhere, for the console's playground.
"""

from datetime import datetime
from typing import Any

from pydantic import Field, field_validator

from .base import Request, Response
from .config import SessionConfig
from .sessions import Budget
from .training.reading_options import ModelNames

DEFAULTS = SessionConfig()


class ServingCreate(Request):
    """``POST /v1/serving``. The rest of a session's options is about training, and has no place
    here.
    """

    model: str = Field(
        min_length=1,
        max_length=400,
        description="A base model (GET /v1/base-models), or the id of a committed checkpoint of "
        "kind model.",
    )
    name: str = Field(
        "", max_length=120, description="What the console calls it; the id when empty."
    )
    # None and not a number: a model that reads less than the default is served with its own length.
    max_context_length: int | None = Field(
        None,
        ge=16,
        le=1_048_576,
        description="Prompt plus answer of one call, in tokens. None: 2048, or what the model "
        "reads if less.",
    )
    max_tokens: int | None = Field(
        None,
        ge=1,
        description="Answer length when a call does not say. None: 256, or max_context_length if "
        "less.",
    )
    temperature: float = Field(
        DEFAULTS.temperature,
        ge=0,
        le=2,
        description="Sampling temperature when a call does not say.",
    )
    model_names: ModelNames = Field(
        "own",
        description="Other names of the model in calls: none, any, or a map of names to the calls' "
        "agents.",
    )
    # Ten minutes: nothing is lost by an end, and the next call starts it again.
    idle_suspend_s: float = Field(
        600.0, ge=10, le=604_800, description="It suspends after so long without a call."
    )
    priority: int = Field(
        0,
        ge=-100,
        le=100,
        description="Among the project's own queued sessions, higher goes first.",
    )
    budget: Budget = Field(Budget(), description="device_s and wall_s; at a limit it stops.")

    @field_validator("budget")
    @classmethod
    def _has_no_steps(cls, value: Budget) -> Budget:
        if value.steps is not None:
            raise ValueError("a model that is served takes no steps: give device_s or wall_s")
        return value


class ServingKeyCreate(Request):
    """``POST /v1/sessions/{id}/serving-keys``, and of a checkpoint of a Tinker client."""

    expires_in_days: int = Field(30, ge=1, le=3650)


class ServingEndpoint(Response):
    """The only response that carries the key. It is of this session, or this checkpoint, alone, and
    ends with who asked for it.
    """

    session_id: str
    base_url: str = Field(description="For OpenAI's clients.")
    anthropic_base_url: str = Field(description="For Anthropic's clients.")
    api_key: str
    model: str = Field(description="What to send as `model`.")
    expires_at: datetime


class OutsideCall(Request):
    """``POST /v1/outside-calls``: one chat completion of another OpenAI-compatible endpoint."""

    base_url: str = Field(max_length=2000, description="Without /chat/completions.")
    api_key: str = Field(
        "", max_length=2000, pattern=r"^[!-~]*$", description="Sent there, and kept nowhere."
    )
    body: dict[str, Any] = Field(description="As that endpoint takes it; never streamed.")


class OutsideAnswer(Response):
    """What the endpoint returned, whether it is an answer or a refusal of its own."""

    status: int
    body: dict[str, Any]
