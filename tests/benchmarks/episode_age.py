"""Removing episodes by age on PostgreSQL: how fast rows go, what it does to lists beside it, and
what space comes back.

    .venv/bin/python tests/benchmarks/episode_age.py --rows 10000000

A quarter of the sessions is too old. Prints rows and bytes of the table of episodes before and
after, rows removed in a second, milliseconds of a page of a long session's list before, during and
after (median and worst), what autovacuum left, and what as many new rows take then, over some
cycles: whether the space of what went is used again. Rows go as
``console/sessions/runtime/episode_expiry.py`` removes them; the store is not asked.
"""

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]
PER_SESSION, SHOWN_ROWS = 3_200, 100_000
TABLE = "console_episoderecord"
INSERT = f"""INSERT INTO {TABLE} (session_id, episode_id, seq, task, group_key, eval, fate, reason, reward,
    metrics, agents, calls, sampled_tokens, drift, trained_step, policy_version_last, prompt, answer, begun_at,
    pack_offset, pack_bytes)
  SELECT s.id, 'ep_' || s.id || n, n, 'task ' || n %% 400, 'task ' || n %% 400, false, 'trained', '', random(),
    '{{}}', '|a|', 3, 300, 0, n / 32, n / 32, repeat(md5(random()::text), 7), repeat(md5(random()::text), 7), 0, 0, 0
  FROM console_session s CROSS JOIN generate_series(1, %s) n WHERE s.name = %s"""


def execute(text: str, parameters: list | None = None) -> list[tuple]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(text, parameters)
        return cursor.fetchall() if cursor.description else []


def fill(project, rows: int) -> None:
    """Sessions that ended lately and long ago, by name, with episodes; indexes are made after the
    rows.
    """
    from datetime import timedelta

    from django.utils import timezone

    from console.sessions.models import Session

    indexes = execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = %s AND indexdef NOT LIKE %s",
        [TABLE, "%UNIQUE%"],
    )
    for name, _ in indexes:
        execute(f"DROP INDEX {name}")
    for name, share in (("old", 1), ("kept", 3)):
        made = [
            Session(project=project, base_model="m", state="stopped", name=name)
            for _ in range(rows * share // 4 // PER_SESSION)
        ]
        Session.objects.bulk_create(made)
        execute(INSERT, [PER_SESSION, name])
    Session.objects.create(project=project, base_model="m", state="stopped", name="shown")
    execute(INSERT, [SHOWN_ROWS, "shown"])
    for _, definition in indexes:
        execute(definition)
    Session.objects.filter(name="old").update(state_since=timezone.now() - timedelta(days=40))
    # or one that is due for the rows that came would run beside the removal
    execute("VACUUM ANALYZE")


def size() -> str:
    ((table, whole, live, dead),) = execute(
        f"""SELECT pg_relation_size('{TABLE}'), pg_total_relation_size('{TABLE}'), n_live_tup, n_dead_tup
            FROM pg_stat_user_tables WHERE relname = '{TABLE}'"""
    )
    return f"{whole / 1e9:.2f} GB with indexes, {table / 1e9:.2f} GB table; {live:,} rows, {dead:,} dead"


class Lists(threading.Thread):
    """Reads the newest and the best page of the shown session's list, five times a second, until it
    is told to end.
    """

    def __init__(self, project) -> None:
        super().__init__()
        self._project, self._end = project, threading.Event()
        self.took_ms: list[float] = []

    def run(self) -> None:
        from django.db import connections

        from console.sessions.episodes.selectors import EpisodeFilter, episode_list
        from console.sessions.models import Session
        from tinkerscript.wire.reading.trajectories import EpisodeSort

        shown = Session.objects.get(name="shown").id
        sorts = (EpisodeSort.NEWEST, EpisodeSort.BEST)
        while not self._end.wait(0.2) or not self.took_ms:
            began = time.perf_counter()
            for sort in sorts:
                episode_list(
                    project=self._project, session_id=shown, only=EpisodeFilter(), sort=sort
                )
            self.took_ms.append((time.perf_counter() - began) * 1000 / len(sorts))
        connections.close_all()

    def told(self) -> str:
        self._end.set()
        self.join()
        return f"{statistics.median(self.took_ms):.1f} ms, worst {max(self.took_ms):.0f} of {len(self.took_ms)}"


def listed(project, seconds: float) -> str:
    lists = Lists(project)
    lists.start()
    time.sleep(seconds)
    return lists.told()


def remove(project) -> None:
    """All rounds of the old sessions, one after another."""
    from console.sessions.models import Session
    from console.sessions.runtime import episode_expiry
    from console.sessions.runtime.session_turn import session_turn

    lists, began, gone = Lists(project), time.monotonic(), 0
    lists.start()
    for session in Session.objects.filter(name="old"):
        with session_turn(session.id) as turn:
            for rows in episode_expiry._rows_of(session):  # noqa: SLF001 - what is measured
                episode_expiry._rows_remove(rows, turn, float("inf"))  # noqa: SLF001
        gone += PER_SESSION
    took_s = time.monotonic() - began
    told = f"{gone:,} rows in {took_s:.0f} s, {gone / took_s:,.0f} a second; a list beside it {lists.told()}"
    print(f"removed  {told}", flush=True)


def vacuums() -> int:
    ((count,),) = execute(
        f"SELECT autovacuum_count FROM pg_stat_user_tables WHERE relname = '{TABLE}'"
    )
    return count


def vacuumed(before: int, within_s: float) -> str:
    began = time.monotonic()
    while time.monotonic() - began < within_s:
        if vacuums() > before and not execute("SELECT 1 FROM pg_stat_progress_vacuum"):
            return f"done {time.monotonic() - began:.0f} s after the last row"
        time.sleep(1)
    return f"not done within {within_s:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument(
        "--cycles", type=int, default=2, help="of removing a quarter and having as many rows come"
    )
    parser.add_argument(
        "--vacuum-s", type=float, default=420.0, help="how long autovacuum is waited for"
    )
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tinkerscript-age-")))
        folder.chmod(0o755)
        import on_postgres

        tools = on_postgres.postgres_tools()
        if tools is None:
            raise SystemExit(
                "PostgreSQL is not on this machine (Debian: apt-get install postgresql)"
            )
        os.environ["DATABASE_URL"] = stack.enter_context(on_postgres.postgres(tools, folder))
        os.environ.update(
            DJANGO_SETTINGS_MODULE="console.settings", TINKERSCRIPT_DATA=str(folder / "data")
        )
        import django

        django.setup()
        measure(options.rows, options.vacuum_s, options.cycles)


def measure(rows: int, within_s: float, cycles: int) -> None:
    from django.core.management import call_command
    from django.db import connections

    from console.sessions.models import Session
    from console.users.services import user_create

    call_command("migrate", verbosity=0)
    project = (
        user_create(email="a@example.com", password="correct horse battery")
        .memberships.get()
        .project
    )
    began = time.monotonic()
    fill(project, rows)
    print(f"filled   {size()}; {time.monotonic() - began:.0f} s", flush=True)
    print(f"lists    {listed(project, 10)}", flush=True)
    for cycle in range(1, cycles + 1):
        before = vacuums()
        remove(project)
        print(f"cycle {cycle}  {size()}; load {os.getloadavg()[0]:.1f}", flush=True)
        print(f"vacuum   {vacuumed(before, within_s)}: {size()}", flush=True)
        made = [
            Session(project=project, base_model="m", state="stopped", name="old")
            for _ in range(rows // 4 // PER_SESSION)
        ]
        Session.objects.filter(name="old").delete()
        Session.objects.bulk_create(made)
        began = time.monotonic()
        execute(INSERT, [PER_SESSION, "old"])
        print(f"refilled {size()}; {time.monotonic() - began:.0f} s", flush=True)
    print(f"lists    {listed(project, 10)}", flush=True)
    connections.close_all()


if __name__ == "__main__":
    main()
