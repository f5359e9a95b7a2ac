"""What a list of episodes holds, counted (its rewards in buckets, fates, tasks), and bounds on
it.
"""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from pydantic import Field

from ..base import Response
from .trajectories import EpisodeFate

BUCKETS = 24  # of equal width, from the lowest to the highest reward
MAX_TASKS = 12
BOUND = re.compile(r"(.+)(>=|<=)([^<>=]+)", re.DOTALL)
BY_AGENT = "rewards_by_agent/"  # before the agent's name: what it was rewarded with


class RewardBucket(Response):
    """Episodes whose rewards are beside each other. ``lowest`` and ``highest`` are rewards that
    there are.

    As ``reward_min`` and ``reward_max`` of the list they ask for exactly these episodes.
    """

    lowest: float
    highest: float
    count: int = Field(ge=1)


class TaskCount(Response):
    """How many episodes a task has."""

    task: str
    count: int


class EpisodeFacets(Response):
    """``GET .../episodes/facets``: of the episodes that match. Fates and tasks leave out the filter
    by themselves.

    So a page can say how many another choice would show.
    """

    episodes: int
    rewards: list[RewardBucket] = Field(
        description="Of those with a reward, lowest first; empty buckets are left out."
    )
    reward_mean: float | None = Field(description="To nine digits.")
    fates: dict[EpisodeFate, int]
    evaluation: int = Field(description="How many of them are for evaluation.")
    tasks: list[TaskCount] = Field(description=f"The {MAX_TASKS} with the most episodes.")
    tasks_in_all: int


def nine_digits(value: float | None) -> float | None:
    """So that a mean is the same number whoever adds up, and in which order."""
    return None if value is None else float(f"{value:.9g}")


def reward_buckets(counts: Mapping[float, int]) -> list[RewardBucket]:
    """Buckets of so many episodes of each reward."""
    if not counts:
        return []
    rewards = sorted(counts)
    # Each value is divided before it is subtracted: a difference may be too large a number.
    width = rewards[-1] / BUCKETS - rewards[0] / BUCKETS
    found: dict[int, list[float]] = {}
    for reward in rewards:
        number = math.floor(reward / width - rewards[0] / width) if width > 0 else 0
        found.setdefault(max(0, min(BUCKETS - 1, number)), []).append(reward)
    return [
        RewardBucket(lowest=of[0], highest=of[-1], count=sum(counts[each] for each in of))
        for of in found.values()
    ]


class MetricBound(NamedTuple):
    """At least (``is_least``) or at most so much of a metric, or of
    ``rewards_by_agent/<agent>``.
    """

    name: str
    is_least: bool
    value: float


def bound_of(text: str) -> MetricBound:
    """Of ``turns>=3``. Raises ValueError."""
    parts = BOUND.fullmatch(text)
    try:
        value = float(parts[3]) if parts else math.nan
    except ValueError:
        value = math.nan
    if parts is None or not math.isfinite(value):
        raise ValueError(f"must be a name, >= or <=, and a number, such as turns>=3: {text[:60]!r}")
    return MetricBound(parts[1].strip(), parts[2] == ">=", value)
