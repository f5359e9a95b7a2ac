"""Counts of episodes for which each row has to be read: by task and fate, and by reward, in one
reading of them.

An index that has all that a count needs is soon read twice; rows, whose texts are long, are not.
PostgreSQL puts aside what passes the filter: it computes a common table expression once that is
used several times. SQLite, which would sort what is put aside once for each use, sorts it by task
and fate alone and returns the rewards of each in bytes.
"""

import math
from array import array
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from django.core.exceptions import EmptyResultSet
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import QuerySet

from console.sessions.models import EpisodeRecord
from tinkerscript.wire.reading.trajectories import EpisodeFate

# different ones that PostgreSQL returns; of more it counts buckets, by another reading
MOST_REWARDS = 20_000
# exact to divide by; a sum of fewer rewards than that is no number that is too large
SCALE = 2.0**70
LEAST = 1e-290  # a quotient below it shows in no bucket and no mean

TaskFate = tuple[str | None, str]


class Totals(NamedTuple):
    """Of all that are shown. ``lowest``, ``highest`` and ``scaled`` are None where none has a
    reward.
    """

    evaluation: int
    rewards: int
    lowest: float | None
    highest: float | None
    scaled: float | None  # the sum of the rewards, each divided by SCALE


class _Rewards(list[float]):
    """An aggregate of SQLite: its values as doubles, one after the other. As Django's own
    aggregates there are made.
    """

    step = list.append

    def finalize(self) -> bytes:
        return array("d", self).tobytes()


# A sum, and no average: PostgreSQL adds up squares for it, which may be too large a number. Nor
# does it divide where the quotient is too small.
_TOTALS = f"""SUM(CASE WHEN eval THEN 1 ELSE 0 END), COUNT(reward), MIN(reward), MAX(reward),
    SUM(CASE WHEN reward > {-SCALE * LEAST!r} AND reward < {SCALE * LEAST!r} THEN 0.0 ELSE reward / {SCALE!r} END)"""


def count_once(
    matching: QuerySet[EpisodeRecord], *, fates: Collection[EpisodeFate], task: str | None
) -> tuple[dict[TaskFate, int], Totals, dict[float, int] | None]:
    """How many episodes match of each task and fate; and of those of ``fates`` (none: any) and
    ``task`` (None: any) the totals, and how many have each reward, or None where there are more
    than MOST_REWARDS different ones.
    """
    try:
        rows, parameters = (
            matching.order_by()
            .values_list("task", "fate", "eval", "reward")
            .query.sql_with_params()
        )
    except EmptyResultSet:  # no block of texts has what is asked for
        return {}, Totals(0, 0, None, None, None), {}
    database = connections[matching.db]
    if database.vendor == "sqlite":
        return _count_sqlite(database, rows, parameters, fates=fates, task=task)
    is_shown, given = "", [*fates, *([] if task is None else [task])]
    if fates:
        is_shown += f" AND fate IN ({', '.join(['%s'] * len(fates))})"
    if task is not None:
        is_shown += " AND task = %s"
    statement = (
        f"WITH matching (task, fate, eval, reward) AS ({rows})"
        f" SELECT 'totals' AS kind, NULL, NULL, {_TOTALS} FROM matching WHERE 1 = 1{is_shown}"
        " UNION ALL SELECT 'part', task, fate, COUNT(*), 0, NULL, NULL, NULL FROM matching GROUP "
        "BY task, fate"
        " UNION ALL SELECT 'reward', NULL, NULL, n, 0, reward, NULL, NULL FROM (SELECT reward, "
        "COUNT(*) AS n"
        f" FROM matching WHERE reward IS NOT NULL{is_shown} GROUP BY reward LIMIT "
        f"{MOST_REWARDS + 1}) AS by_reward"
    )
    with database.cursor() as cursor:
        cursor.execute(statement, [*parameters, *given, *given])
        found = cursor.fetchall()
    (totals,) = [Totals(row[3] or 0, *row[4:]) for row in found if row[0] == "totals"]
    parts = {(row[1], row[2]): row[3] for row in found if row[0] == "part"}
    by_reward = {row[5]: row[3] for row in found if row[0] == "reward"}
    return parts, totals, by_reward if len(by_reward) <= MOST_REWARDS else None


def _count_sqlite(
    database: BaseDatabaseWrapper,
    rows: str,
    parameters: tuple,
    *,
    fates: Collection[EpisodeFate],
    task: str | None,
) -> tuple[dict[TaskFate, int], Totals, dict[float, int]]:
    """As ``count_once`` of the query ``rows``, with every reward."""
    database.ensure_connection()
    database.connection.create_aggregate("rewards_kept", 1, _Rewards)
    # "+task": not in the order of an index by task, which has no ``seq``; so a block without the
    # text costs no row.
    statement = (
        "SELECT task, fate, eval, COUNT(*), rewards_kept(reward) FILTER (WHERE reward IS NOT NULL)"
        f" FROM ({rows}) GROUP BY +task, fate, eval"
    )
    parts: Counter[TaskFate] = Counter()
    rewards, evaluation = array("d"), 0
    with database.cursor() as cursor:
        for of_task, fate, is_eval, episodes, of_part in cursor.execute(statement, parameters):
            parts[of_task, fate] += episodes
            if (task is None or of_task == task) and (not fates or fate in fates):
                evaluation += episodes if is_eval else 0
                rewards.frombytes(of_part or b"")  # none of the part has one
    by_reward = Counter(rewards)
    scaled = math.fsum(reward / SCALE * n for reward, n in by_reward.items()) if by_reward else None
    totals = Totals(
        evaluation, len(rewards), min(by_reward, default=None), max(by_reward, default=None), scaled
    )
    return parts, totals, by_reward
