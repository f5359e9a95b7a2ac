"""The tables of a session's journal, and how its file is opened: one writer, a commit is on disk
when it returns.
"""

import sqlite3
from pathlib import Path

from gpu_runtime.errors import RuntimeFault

SCHEMA_VERSION = 1

TABLES = """
CREATE TABLE IF NOT EXISTS meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- An episode counts exactly once in the accounting: `state`, and for a completed one `fate` (none: waiting).
CREATE TABLE IF NOT EXISTS episodes (
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
CREATE INDEX IF NOT EXISTS episodes_by_state ON episodes (state, fate, eval);
CREATE INDEX IF NOT EXISTS episodes_by_end ON episodes (end_seq);

-- How many episodes there are of each state, fate, and reason of an abandoned one: the counts of
-- each second take as long with 100,000 episodes as with one. Triggers keep them, so that no write
-- can forget it.
CREATE TABLE IF NOT EXISTS episode_counts (
    state TEXT NOT NULL,
    fate TEXT NOT NULL,  -- '' of none
    reason TEXT NOT NULL,  -- '' but of abandoned ones
    n INTEGER NOT NULL,
    PRIMARY KEY (state, fate, reason)
) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS episode_counted AFTER INSERT ON episodes BEGIN
    INSERT INTO episode_counts VALUES (
        NEW.state, ifnull(NEW.fate, ''), iif(NEW.state = 'abandoned', ifnull(NEW.reason, ''), ''), 1
    ) ON CONFLICT DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER IF NOT EXISTS episode_counted_again
AFTER UPDATE OF state, fate, reason ON episodes BEGIN
    UPDATE episode_counts SET n = n - 1 WHERE state = OLD.state AND fate = ifnull(OLD.fate, '')
        AND reason = iif(OLD.state = 'abandoned', ifnull(OLD.reason, ''), '');
    INSERT INTO episode_counts VALUES (
        NEW.state, ifnull(NEW.fate, ''), iif(NEW.state = 'abandoned', ifnull(NEW.reason, ''), ''), 1
    ) ON CONFLICT DO UPDATE SET n = n + 1;
END;

-- A prompt that continues an earlier completion is kept as a reference to it plus the ids that follow: a long
-- conversation takes room in proportion to its length, not to its square.
CREATE TABLE IF NOT EXISTS calls (
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
CREATE INDEX IF NOT EXISTS calls_by_episode ON calls (episode_id, seq);
CREATE INDEX IF NOT EXISTS calls_by_parent ON calls (parent_call);  -- to delete a call, SQLite looks for its children

CREATE TABLE IF NOT EXISTS completions (
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
-- What a grammar left to choose from at each token: token_values.py. A number for each, and the different sets.
CREATE TABLE IF NOT EXISTS allowed_sets (
    call_id TEXT NOT NULL REFERENCES calls (id),
    choice INTEGER NOT NULL,
    numbers BLOB NOT NULL,
    sets TEXT NOT NULL,
    PRIMARY KEY (call_id, choice)
);

-- Log-probabilities at temperature 1 over all ids, of answers that were sampled otherwise.
CREATE TABLE IF NOT EXISTS raw_logprobs (
    call_id TEXT NOT NULL REFERENCES calls (id),
    choice INTEGER NOT NULL,
    raw_logprobs BLOB NOT NULL,
    PRIMARY KEY (call_id, choice)
);

-- Of answers of a mixture the experts that sampled each token: token_values.py.
CREATE TABLE IF NOT EXISTS routed_experts (
    call_id TEXT NOT NULL REFERENCES calls (id),
    choice INTEGER NOT NULL,
    experts BLOB NOT NULL,
    PRIMARY KEY (call_id, choice)
);

-- The trainer's own log-probabilities before the step that trained an answer; NaN of a token that it did not train.
CREATE TABLE IF NOT EXISTS trainer_logprobs (
    call_id TEXT NOT NULL REFERENCES calls (id),
    choice INTEGER NOT NULL,
    logprobs BLOB NOT NULL,
    PRIMARY KEY (call_id, choice)
);

-- The same under the weights after that step, in sessions with logprobs_after_step.
CREATE TABLE IF NOT EXISTS trainer_logprobs_after (
    call_id TEXT NOT NULL REFERENCES calls (id),
    choice INTEGER NOT NULL,
    logprobs BLOB NOT NULL,
    PRIMARY KEY (call_id, choice)
);

-- One batch per step; an episode is in at most one batch.
CREATE TABLE IF NOT EXISTS batches (
    step INTEGER PRIMARY KEY,
    policy_version INTEGER NOT NULL,
    created_at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS batch_episodes (
    step INTEGER NOT NULL REFERENCES batches (step),
    position INTEGER NOT NULL,
    group_index INTEGER NOT NULL,
    episode_id TEXT NOT NULL UNIQUE REFERENCES episodes (id),
    PRIMARY KEY (step, position)
);
-- A batch whose step was refused, kept to be looked at: its episodes are stale, its step was given to another batch.
CREATE TABLE IF NOT EXISTS refused_batches (
    name TEXT PRIMARY KEY,
    step INTEGER NOT NULL,
    policy_version INTEGER NOT NULL,
    composition TEXT NOT NULL,
    reason TEXT NOT NULL,
    refused_at REAL NOT NULL
);
-- Groups that were set aside: nothing in them was rewarded otherwise than anything else. `step`: the one they were for.
CREATE TABLE IF NOT EXISTS level_groups (
    first_episode_id TEXT PRIMARY KEY REFERENCES episodes (id),
    step INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS level_by_step ON level_groups (step);
-- How far the answers of such a group spread.
CREATE TABLE IF NOT EXISTS level_spreads (
    first_episode_id TEXT PRIMARY KEY REFERENCES episodes (id),
    answers_distinct REAL NOT NULL
);
-- sum over its trained tokens of log pi_engine - log pi_reference, which a KL term in the reward takes away.
CREATE TABLE IF NOT EXISTS reference_gaps (
    episode_id TEXT PRIMARY KEY REFERENCES episodes (id),
    gap REAL NOT NULL
);
-- As JSON, of each call, where a member of its batch was erased: without that one they cannot be computed again.
CREATE TABLE IF NOT EXISTS kept_advantages (
    episode_id TEXT PRIMARY KEY REFERENCES episodes (id),
    by_call TEXT NOT NULL
);
-- Options that were changed between two steps: changes.py.
CREATE TABLE IF NOT EXISTS config_changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    first_step INTEGER NOT NULL,
    options TEXT NOT NULL,
    was TEXT NOT NULL,
    caller TEXT NOT NULL,
    at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS steps (
    step INTEGER PRIMARY KEY REFERENCES batches (step),
    metrics TEXT NOT NULL,
    done_at REAL NOT NULL
);

-- The archive: archive/parts.py.
CREATE TABLE IF NOT EXISTS archive_parts (
    number INTEGER PRIMARY KEY,
    stored INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS archived_episodes (
    episode_id TEXT PRIMARY KEY REFERENCES episodes (id),
    part INTEGER NOT NULL REFERENCES archive_parts (number),
    place INTEGER NOT NULL
);

CREATE INDEX IF NOT EXISTS archived_by_part ON archived_episodes (part, place);
CREATE INDEX IF NOT EXISTS parts_unstored ON archive_parts (number) WHERE NOT stored;
-- Settled episodes that are in no part yet: nothing about them can change. A trigger notes them, so
-- that a checkpoint looks at these alone and not at every episode.
CREATE TABLE IF NOT EXISTS episodes_to_archive (
    episode_id TEXT PRIMARY KEY REFERENCES episodes (id)
);
CREATE TRIGGER IF NOT EXISTS episode_settled AFTER UPDATE OF state, fate ON episodes
WHEN (NEW.state IN ('abandoned', 'expired') OR NEW.fate IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM archived_episodes WHERE episode_id = NEW.id)
BEGIN
    INSERT OR IGNORE INTO episodes_to_archive VALUES (NEW.id);
END;

-- Ended episodes whose document is in the store; `pruned`: their calls are there alone. removal.py
CREATE TABLE IF NOT EXISTS stored_documents (
    episode_id TEXT PRIMARY KEY REFERENCES episodes (id),
    pruned INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS documents_unpruned ON stored_documents (episode_id) WHERE NOT pruned;

-- Rewards that were replaced before they were trained, and who did it: changes.py.
CREATE TABLE IF NOT EXISTS reward_changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    episode_id TEXT NOT NULL REFERENCES episodes (id),
    was REAL NOT NULL,
    reward REAL NOT NULL,
    caller TEXT NOT NULL,
    at REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS changes_by_episode ON reward_changes (episode_id, seq);

CREATE TABLE IF NOT EXISTS refused_calls (  -- of an episode that is over
    episode_id TEXT PRIMARY KEY REFERENCES episodes (id),
    refused TEXT NOT NULL
);

-- What a Tinker client trains: model_table.py. `state_seq` is the last operation that the saved state holds.
CREATE TABLE IF NOT EXISTS models (
    id TEXT PRIMARY KEY,
    state_seq INTEGER NOT NULL DEFAULT -1
);
CREATE TABLE IF NOT EXISTS model_operations (
    model_id TEXT NOT NULL REFERENCES models (id),
    seq_id INTEGER NOT NULL,
    request_id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    sha256 TEXT NOT NULL,
    result_kind TEXT CHECK (result_kind IN ('json', 'proto', 'error', 'dropped')),
    result BLOB,
    taken_at REAL NOT NULL,
    done_at REAL,
    UNIQUE (model_id, seq_id)
);
CREATE INDEX IF NOT EXISTS model_results ON model_operations (done_at) WHERE result IS NOT NULL;
CREATE TABLE IF NOT EXISTS samplers (
    id TEXT PRIMARY KEY,
    described TEXT NOT NULL
);

-- What the control plane has still to be told of: trajectories/outbox.py. Noted by the transaction that makes it so.
CREATE TABLE IF NOT EXISTS episodes_to_report (
    episode_id TEXT PRIMARY KEY REFERENCES episodes (id),
    change INTEGER NOT NULL,
    row_due INTEGER NOT NULL,
    document_due INTEGER NOT NULL
);
CREATE TRIGGER IF NOT EXISTS episode_begun AFTER INSERT ON episodes BEGIN
    INSERT INTO episodes_to_report VALUES (NEW.id, 1, 1, 0);
END;
CREATE TRIGGER IF NOT EXISTS episode_changed AFTER UPDATE OF state, fate ON episodes BEGIN
    INSERT INTO episodes_to_report VALUES (NEW.id, 1, 1, OLD.state = 'open' AND NEW.state != 'open')
    ON CONFLICT (episode_id) DO UPDATE
    SET change = change + 1, row_due = 1, document_due = max(document_due, excluded.document_due);
END;
"""


# Of a journal that was begun without the table of counts.
COUNT_EARLIER = """
INSERT INTO episode_counts SELECT
    state, ifnull(fate, ''), iif(state = 'abandoned', ifnull(reason, ''), '') AS why, count(*)
FROM episodes WHERE NOT EXISTS (SELECT 1 FROM episode_counts) GROUP BY state, fate, why;
"""


# Of a journal that was begun without the table of what is to be archived.
SETTLED_EARLIER = """
INSERT OR IGNORE INTO episodes_to_archive SELECT id FROM episodes
WHERE NOT EXISTS (SELECT 1 FROM meta WHERE name = 'settled_noted')
    AND (state IN ('abandoned', 'expired') OR fate IS NOT NULL)
    AND id NOT IN (SELECT episode_id FROM archived_episodes);
INSERT OR IGNORE INTO meta VALUES ('settled_noted', '1');
"""


class EpisodeNotOpen(RuntimeFault):
    """The episode is unknown, or it has ended, was abandoned or expired. Nothing was written."""

    code = "episode_not_open"


def connect(path: Path) -> sqlite3.Connection:
    """Open (and if new, create) the journal at ``path``. Raises RuntimeFault on a file of another
    schema.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30.0)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA journal_mode = WAL")
    # FULL: a commit returns when the write-ahead log is on disk, so that an acknowledgement
    # survives a power cut.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.executescript(f"BEGIN IMMEDIATE;{TABLES}{COUNT_EARLIER}{SETTLED_EARLIER}COMMIT;")
    connection.execute(
        "INSERT OR IGNORE INTO meta VALUES ('schema_version', ?)", (str(SCHEMA_VERSION),)
    )
    found = connection.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchone()[0]
    if found != str(SCHEMA_VERSION):
        connection.close()
        raise RuntimeFault(
            f"the journal {path.name} has schema {found}; this runtime reads schema "
            f"{SCHEMA_VERSION}"
        )
    return connection
