"""Each task as it was played nearest to two versions of the policy: of tasks that take turns, few
are under both.
"""

from collections.abc import Iterable
from typing import NamedTuple

from pydantic import Field

from ..base import Response

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
