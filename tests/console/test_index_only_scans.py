"""What PostgreSQL counts of many episodes it finds in an index, without reading a row.

It can where the index has every column that the statement names: one column more, such as
COUNT(id), and it reads the rows, which takes several times as long. These tests forbid it every way
but indexes, so that few rows do.
"""

from collections.abc import Callable

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from console.sessions.episodes.facets import episode_facets
from console.sessions.episodes.selectors import EpisodeFilter
from console.sessions.models import EpisodeRecord
from support import factories
from tinkerscript.wire.reading.trajectories import EpisodeFate

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(
        connection.vendor != "postgresql", reason="SQLite names no plan that reads an index alone"
    ),
]
# Not "indexscan": without it an index alone costs PostgreSQL as much as what is forbidden, and a
# table that earlier tests have filled and emptied is read whole.
OTHERS = ("seqscan", "bitmapscan")
TABLES = ("console_episoderecord",)


def asked(work: Callable[[], object], about: str) -> list[str]:
    """The statements with this text that it sends."""
    with CaptureQueriesContext(connection) as captured:
        work()
    return [query["sql"] for query in captured.captured_queries if about in query["sql"]]


def scans(sql: str) -> list[str]:
    """How PostgreSQL reads tables for a statement, when it may read indexes and nothing else."""
    with transaction.atomic(), connection.cursor() as cursor:
        # as autovacuum leaves them: else an index alone is no cheaper, as it looks at rows too
        for table in TABLES:
            cursor.execute(f"ANALYZE {table}")
            cursor.execute(
                "UPDATE pg_class SET relallvisible = relpages WHERE oid = %s::regclass", [table]
            )
        for other in OTHERS:
            cursor.execute(f"SET LOCAL enable_{other} = off")
        cursor.execute("EXPLAIN " + sql)
        plan = [
            line.strip("-> ").partition("  (")[0] for (line,) in cursor.fetchall() if "Scan" in line
        ]
        for other in OTHERS:
            cursor.execute(f"SET LOCAL enable_{other} = on")
    return plan


@pytest.mark.parametrize(
    "only",
    [
        EpisodeFilter(),
        EpisodeFilter(task="t-1"),
        EpisodeFilter(fates=(EpisodeFate.TRAINED,)),
        EpisodeFilter(reward_min=0.5),
    ],
    ids=["all", "task", "fate", "reward"],
)
def test_the_counts_beside_a_list_of_episodes_come_from_its_index(project, only) -> None:
    session = factories.session_make(project)
    EpisodeRecord.objects.bulk_create(
        EpisodeRecord(
            session=session, episode_id=f"epi_{at}", seq=at, reward=at / 7, begun_at=1.0, task=f"t-{at % 3}",
            fate=EpisodeFate.TRAINED,
        )
        for at in range(50)
    )  # fmt: skip
    sent = asked(
        lambda: episode_facets(project=project, session_id=session.id, only=only), "GROUP BY"
    )
    assert len(sent) == 2, "by task and fate, and by reward"
    for sql in sent:
        (scan,) = scans(sql)
        assert scan.startswith("Index Only Scan") and scan.endswith(" on console_episoderecord"), (
            sql
        )
