"""A session's journal as release 0.1 had it: its tables, and rows that mean the same today."""

import sqlite3
from contextlib import closing
from pathlib import Path

TABLES = """
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
CREATE TABLE episodes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    begin_key TEXT UNIQUE,
    task TEXT,
    group_key TEXT,
    eval INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'completed', 'abandoned', 'expired')),
    fate TEXT CHECK (fate IN ('trained', 'stale', 'eval')),
    reason TEXT,
    output TEXT,
    reward REAL,
    calls INTEGER NOT NULL DEFAULT 0,
    sampled_tokens INTEGER NOT NULL DEFAULT 0,
    version_first INTEGER,
    version_last INTEGER,
    report TEXT,
    trained_step INTEGER,
    begun_at REAL NOT NULL,
    deadline_at REAL NOT NULL,
    ended_at REAL,
    end_seq INTEGER,
    CHECK (fate IS NULL OR state = 'completed'),
    CHECK ((state = 'open') = (ended_at IS NULL))
);
CREATE INDEX episodes_by_state ON episodes (state, fate, eval);
CREATE TABLE calls (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    episode_id TEXT NOT NULL REFERENCES episodes (id),
    request_id TEXT,
    body_sha256 TEXT,
    status TEXT NOT NULL CHECK (status IN ('completed', 'cancelled')),
    agent TEXT,
    parent_call TEXT REFERENCES calls (id),
    parent_choice INTEGER,
    parent_kept INTEGER,
    prompt_ids BLOB NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    messages_from INTEGER NOT NULL,
    messages TEXT NOT NULL,
    options TEXT NOT NULL,
    drift TEXT,
    begun_at REAL NOT NULL,
    ended_at REAL NOT NULL,
    UNIQUE (episode_id, request_id)
);
CREATE INDEX calls_by_episode ON calls (episode_id, seq);
CREATE TABLE completions (
    call_id TEXT NOT NULL REFERENCES calls (id),
    choice INTEGER NOT NULL,
    token_ids BLOB NOT NULL,
    logprobs BLOB NOT NULL,
    versions BLOB NOT NULL,
    top_logprobs TEXT,
    text TEXT NOT NULL,
    finish_reason TEXT,
    stop_reason TEXT,
    message TEXT NOT NULL,
    splice_key TEXT,
    PRIMARY KEY (call_id, choice)
);
CREATE TABLE batches (
    step INTEGER PRIMARY KEY,
    policy_version INTEGER NOT NULL,
    created_at REAL NOT NULL
);
CREATE TABLE batch_episodes (
    step INTEGER NOT NULL REFERENCES batches (step),
    position INTEGER NOT NULL,
    group_index INTEGER NOT NULL,
    episode_id TEXT NOT NULL UNIQUE REFERENCES episodes (id),
    PRIMARY KEY (step, position)
);
CREATE TABLE refused_batches (
    name TEXT PRIMARY KEY,
    step INTEGER NOT NULL,
    policy_version INTEGER NOT NULL,
    composition TEXT NOT NULL,
    reason TEXT NOT NULL,
    refused_at REAL NOT NULL
);
CREATE TABLE steps (
    step INTEGER PRIMARY KEY REFERENCES batches (step),
    metrics TEXT NOT NULL,
    done_at REAL NOT NULL
);
CREATE TABLE archive_parts (
    number INTEGER PRIMARY KEY,
    stored INTEGER NOT NULL
);
CREATE TABLE archived_episodes (
    episode_id TEXT PRIMARY KEY REFERENCES episodes (id),
    part INTEGER NOT NULL REFERENCES archive_parts (number),
    place INTEGER NOT NULL
);
"""


def older_journal_make(path: Path, newer: Path) -> None:
    """Write ``path`` with the rows that ``newer``, a journal that was closed, has in tables that were there."""
    with closing(sqlite3.connect(path)) as older:
        older.executescript(TABLES)
        older.execute("ATTACH ? AS newer", (str(newer),))
        names = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        for (name,) in older.execute(names).fetchall():
            columns = ", ".join(row[1] for row in older.execute(f"PRAGMA main.table_info({name})"))
            older.execute(f"INSERT INTO main.{name} ({columns}) SELECT {columns} FROM newer.{name}")
        older.execute("DELETE FROM meta WHERE name != 'schema_version'")
        older.commit()
