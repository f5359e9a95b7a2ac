"""The rows of many sessions that have ended, copied inside PostgreSQL from those that a few really
left.

A hundred thousand sessions take hours of many cores to play. What they leave behind is what a query
may grow with, so ``capacity.py --already 100000 --day ...`` plays SEEDS of them, copies their rows
and then measures a day beside them. All are of one project and one person, which is the hardest
case for what is asked of either. Times of runtimes that are final are added up here, as a server
that had these sessions would have done over the day; else all at once beside what is measured.
"""

import time

import psycopg

SEEDS = 24
ENDED_S = 600.0
EPISODES = 3  # of each session: a thousandth of its day's, as --traffic 0.001 has it
# console/sessions/limits/usage.py
FINAL = "s.seen_at - made.age < now() - interval '10 minutes'"
# Rows of a session, by table: what is copied beside its columns, and which of them.
COPIED = {
    "console_session": {"id": "made.id", "created_at": "s.created_at - made.age",
                        "updated_at": "s.updated_at - made.age", "state_since": "s.state_since - made.age"},
    "console_eventrecord": {"session_id": "made.id", "at": "s.at - made.age"},
    "console_logchunk": {"session_id": "made.id"},
    "console_episoderecord": {"session_id": "made.id"},
    "console_runtimespan": {"session_id": "made.id", "lease_sha256": "md5(made.id) || md5(random()::text)",
                            "started_at": "s.started_at - made.age", "seen_at": "s.seen_at - made.age",
                            "summed": FINAL, "summed_at": f"CASE WHEN {FINAL} THEN s.seen_at - made.age END"},
}  # fmt: skip
ONLY = {"console_episoderecord": f"s.seq < {EPISODES}"}
SUMS = """INSERT INTO console_usagesum (project_id, session_id, key_id, person_id, gpus, seconds)
          SELECT project_id, session_id, key_id, person_id, gpus, sum(extract(epoch FROM seen_at - started_at))
          FROM console_runtimespan JOIN made ON session_id = made.id WHERE summed GROUP BY 1, 2, 3, 4, 5"""


def copy(url: str, sessions: int) -> None:
    """Make as many sessions, with rows of each, as if they had come over the day before; prints
    what it left out.
    """
    began = time.monotonic()
    with psycopg.connect(url, autocommit=True) as database:
        _wait_for_seeds(database)
        database.execute(
            f"""CREATE TABLE made AS SELECT 'ses_' || substr(md5('made' || number), 1, 16) AS id, seeds.id AS of,
                       random() * interval '1 day' AS age
                FROM generate_series(1, {sessions}) AS number
                JOIN (SELECT id, row_number() OVER () AS at, count(*) OVER () AS count FROM console_session) AS seeds
                ON number % seeds.count + 1 = seeds.at"""
        )
        for table, changed in COPIED.items():
            columns = _columns(database, table)
            values = ", ".join(changed.get(column, f's."{column}"') for column in columns)
            names = ", ".join(f'"{column}"' for column in columns)
            of = "id" if table == "console_session" else "session_id"
            where = f"WHERE {ONLY[table]}" if table in ONLY else ""
            text = f"INSERT INTO {table} ({names}) SELECT {values} FROM {table} s JOIN made ON s.{of} = made.of {where}"
            print(f"  {table:24}{database.execute(text).rowcount:10,} rows", flush=True)
        print(f"  {'console_usagesum':24}{database.execute(SUMS).rowcount:10,} rows", flush=True)
        text = """SELECT table_name FROM information_schema.columns
                  WHERE column_name = 'session_id' AND table_schema = 'public'"""
        others = [
            table
            for (table,) in database.execute(text).fetchall()
            if table not in (*COPIED, "console_usagesum")
        ]
        left_out = [
            table
            for table in others
            if database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()
        ]
        database.execute("DROP TABLE made")
        database.execute("VACUUM ANALYZE")
    print(
        f"  not copied: {', '.join(left_out) or 'nothing'}; {time.monotonic() - began:.0f} s",
        flush=True,
    )


def _wait_for_seeds(database: psycopg.Connection) -> None:
    """Until the reconciler has seen that their runtimes are gone: copies that still end would be
    its work for hours.
    """
    deadline = time.monotonic() + ENDED_S
    while database.execute(
        "SELECT 1 FROM console_session WHERE state != 'stopped' LIMIT 1"
    ).fetchone():
        if time.monotonic() > deadline:
            raise SystemExit(f"sessions of before did not end within {ENDED_S:.0f} s")
        time.sleep(0.5)


def _columns(database: psycopg.Connection, table: str) -> list[str]:
    """Those that the database does not number itself."""
    text = """SELECT column_name FROM information_schema.columns
              WHERE table_name = %s AND table_schema = 'public' AND is_identity = 'NO' ORDER BY ordinal_position"""
    return [name for (name,) in database.execute(text, [table]).fetchall()]
