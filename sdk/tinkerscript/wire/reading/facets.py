"""Episodes in numbers: what a list of them holds, counted (its rewards in buckets, fates, tasks),
bounds on it; and each task as it was played nearest to two versions of the policy.
"""

import math
import re
from collections.abc import Iterable, Mapping
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


REACHES = (0, 4, 16, 64, 256, None)  # versions beside each of the two, from the least on; None: any
MAX_COMPARED = 200


class Play(NamedTuple):
    """The episodes of one task under one version."""

    task: str
    version: int
    episodes: int
    reward: float  # their mean


class NearPlay(Response):
    """What a task earned under the version at which it was played nearest to the one that was asked
    for.
    """

    version: int
    episodes: int
    reward: float = Field(description="The mean of those that have one.")


class ComparedTask(Response):
    """One task at its two plays. Each play belongs to the version that it is nearer to."""

    task: str
    before: NearPlay
    after: NearPlay


class NearestPlays(Response):
    """``GET .../episodes/nearest``: the tasks that were played near both versions, what lost most
    first.
    """

    items: list[ComparedTask] = Field(description=f"{MAX_COMPARED} at most.")
    tasks_in_all: int
    reach: int | None = Field(
        description="Plays at most so many versions away are compared: the first of "
        f"{', '.join(str(reach) for reach in REACHES if reach is not None)} and any (null) that "
        "has a task near both."
    )


def is_within(version: int, of: tuple[int, int], reach: int | None) -> bool:
    """Whether a play belongs to a comparison of the two versions ``of``."""
    return reach is None or min(abs(version - each) for each in of) <= reach


def nearest_plays(plays: Iterable[Play], of: tuple[int, int], reach: int | None) -> NearestPlays:
    """The comparison of versions ``of`` by ``plays``, of each task and version one, which are
    within ``reach``.
    """
    sides: tuple[dict[str, Play], dict[str, Play]] = ({}, {})
    for play in plays:
        away = [abs(play.version - each) for each in of]
        at = 0 if away[0] <= away[1] else 1
        known = sides[at].get(play.task)
        # Of two that are as near, the later: it is what the policy had come to.
        if known is None or (away[at], -play.version) < (
            abs(known.version - of[at]),
            -known.version,
        ):
            sides[at][play.task] = play
    both = [(sides[0][task], sides[1][task]) for task in sides[0].keys() & sides[1].keys()]
    # Each by itself and not their difference, which may be too large a number.
    both.sort(key=lambda pair: (pair[1].reward / 2 - pair[0].reward / 2, pair[0].task))
    items = [
        ComparedTask(task=one.task, before=_near(one), after=_near(other))
        for one, other in both[:MAX_COMPARED]
    ]
    return NearestPlays(items=items, tasks_in_all=len(both), reach=reach)


def _near(play: Play) -> NearPlay:
    return NearPlay(version=play.version, episodes=play.episodes, reward=play.reward)
