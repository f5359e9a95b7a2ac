"""Rules of alerts that a project makes for itself: bounds on what its runs measure."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field, FiniteFloat
from pydantic.json_schema import SkipJsonSchema

from ..base import Changes, Request, Response
from .points import MEASURES, measures_unknown

MAX_STEPS = 50
MAX_MEASURE = 220  # characters: a name of an agent's own with what stands before it


def _measure_check(name: str) -> str:
    if measures_unknown([name]):
        known = ", ".join(sorted(MEASURES))
        raise ValueError(f"is no measure of a step; one of {known}, or metrics/<name>")
    return name


# The name stands in mails: no dot and no slash, so that it cannot be a link.
RuleName = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9 _-]*$",
        max_length=60,
        description="Latin letters, digits, spaces, _ and -; it stands in mails.",
    ),
]
Measure = Annotated[
    str,
    AfterValidator(_measure_check),
    Field(
        max_length=MAX_MEASURE,
        description="A field of a step's metrics, such as reward_mean, or what agents measure: "
        "metrics/<name>.",
    ),
]
Steps = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_STEPS,
        description="In the run's last so many steps that have the measure.",
    ),
]
Runs = Annotated[
    str,
    Field(
        max_length=120,
        description="Only runs with this in their name or id, in any case; empty: every run.",
    ),
]


class MetricRuleCreate(Request):
    """``POST /v1/alert-rules``: raise an alert of a run while a measure of its steps is beyond a
    bound.
    """

    name: RuleName
    metric: Measure
    above: bool = Field(description="Raised above the value; false: below it.")
    value: FiniteFloat
    steps: Steps = 5
    runs: Runs = ""


class MetricRuleUpdate(Changes):
    """``PATCH /v1/alert-rules/{rule_id}``: what is given is changed. What the rule had found is
    over.
    """

    name: RuleName | SkipJsonSchema[None] = None
    metric: Measure | SkipJsonSchema[None] = None
    above: bool | SkipJsonSchema[None] = None
    value: FiniteFloat | SkipJsonSchema[None] = None
    steps: Steps | SkipJsonSchema[None] = None
    runs: Runs | SkipJsonSchema[None] = None


class MetricRuleView(Response):
    """One rule."""

    id: str
    name: str
    metric: str
    above: bool
    value: float
    steps: int
    runs: str
    created_at: datetime


class MetricRuleList(Response):
    """All of the project's, the oldest first."""

    items: list[MetricRuleView]
