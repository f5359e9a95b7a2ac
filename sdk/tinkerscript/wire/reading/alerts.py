"""Alerts: what a person should look at in a run; and the rules that a project makes for itself:
bounds on what its runs measure.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, FiniteFloat
from pydantic.json_schema import SkipJsonSchema

from ..base import Changes, Request, Response
from .points import MEASURES, measures_unknown


class AlertRule(StrEnum):
    """What raises an alert. The bounds are in console/sessions/alerts/rules.py."""

    REWARD_COLLAPSE = "reward_collapse"
    ENTROPY_COLLAPSE = "entropy_collapse"
    LENGTH_BLOWUP = "length_blowup"
    KL = "kl"  # a step moved the policy far
    ENGINE_GAP = "engine_gap"  # between the log-probabilities of engine and trainer
    TRUNCATED = "truncated"  # answers that their length ended
    EQUAL_REWARDS = "equal_rewards"  # within groups: no gradient in them
    EPISODES_DROPPED = "episodes_dropped"  # that were ended with a reward, and are not trained
    STUCK = "stuck"
    RESTARTED = "restarted"  # its runtime ended by itself; until its next step
    FAILED = "failed"  # the run; until it is deleted
    CHECKPOINT_FAILED = "checkpoint_failed"  # until one of its kind is saved
    DISK = "disk"  # the object store's, or the runtime's machine's
    BUDGET = "budget"  # at 50, 80 and 100 %
    METRIC_RULE = "metric_rule"  # one of the project's own; its name begins the text


class AlertView(Response):
    """One alert. It is raised once until it is over; then it may be raised again."""

    id: int
    session_id: str
    session_name: str
    rule: AlertRule
    text: str = Field(description="What was measured, and against what.")
    hint: str = Field("", description="What to do.")
    step: int | None
    at: datetime
    over_at: datetime | None = Field(description="When what it says was no longer so.")
    is_read: bool = Field(description="By this person; false for a key.")


class AlertList(Response):
    """One page, newest first. ``unread`` counts all of the project's that this person has not read,
    100 at most.
    """

    items: list[AlertView]
    unread: int
    next_cursor: str | None = None


class AlertsRead(Request):
    """``POST /v1/alerts/read``: this person has seen every alert up to this one."""

    upto: int = Field(ge=0, le=2**53 - 1)


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
