"""Options of a session that may change between two of its steps."""

from typing import Any

from pydantic import Field, model_validator

from ..base import Changes, Response
from ..config import KlCoef, LearningRate, SessionConfig


class ConfigUpdate(Changes):
    """``PATCH /v1/sessions/{id}/config``: options of the next step and of all after it."""

    # What each step reads for itself. Every other option decides what was loaded, what was begun,
    # or what a group is compared with.
    learning_rate: LearningRate = Field(
        None,
        description="AdamW's peak; warm-up and lr_schedule go on by the number of the step.",
    )
    kl_coef: KlCoef | None = Field(
        None,
        description="Weight of the KL term, in a session that began with one above 0 or trains "
        "LoRA adapters.",
    )

    @model_validator(mode="before")
    @classmethod
    def _others_stay(cls, given: Any) -> Any:
        """Raises ValueError for options that a session keeps as it began with them."""
        if not isinstance(given, dict):
            return given
        fixed = sorted(set(given) & set(SessionConfig.model_fields) - set(cls.model_fields))
        if fixed:
            raise ValueError(
                f"{', '.join(fixed)} cannot change in a session that was begun; "
                f"{' and '.join(cls.model_fields)} can. For the others start a session from a "
                "checkpoint of this one"
            )
        return given


class ConfigChange(Response):
    """Options that were changed in a session: they hold for ``first_step`` and all steps after
    it.
    """

    seq: int = Field(description="Its number in the session; 0: the values held already.")
    first_step: int
    options: dict[str, float] = Field(description="The new value of each that was changed.")
    was: dict[str, float | None] = Field(
        description="What each was before; None: the default for a model of its size."
    )
    at: float = Field(description="Unix time in seconds.")
