"""Alerts: what a person should look at in a run."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from ..base import Request, Response


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
