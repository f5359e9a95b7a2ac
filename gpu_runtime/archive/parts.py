"""Which part of the archive each episode is in, as the journal has it.

Fixed before a part is written: the runtime after a kill writes the same part again, so that no
episode is in two parts and none is left out. An episode is archived once nothing about it can
change.
"""

from dataclasses import dataclass

from gpu_runtime.journal.journal import Journal

PART_EPISODES = 500
NOTED = "SELECT episode_id FROM episodes_to_archive"
WAITING = "SELECT id FROM episodes WHERE state = 'completed' AND fate IS NULL"
SETTLED = "(state IN ('abandoned', 'expired') OR fate IS NOT NULL)"


@dataclass(frozen=True)
class Part:
    """One file of the archive; numbers begin at 1 and have no gap."""

    number: int
    episode_ids: tuple[str, ...]


def parts_fix(journal: Journal, *, everything: bool) -> None:
    """Put every settled episode that is in no part into new ones; ``everything``: also those that
    still wait.

    Pass ``everything`` only when no step will be trained any more.
    """
    with journal.database.transaction() as sql:
        chosen = f"{NOTED} UNION {WAITING}" if everything else NOTED
        rows = sql.execute(
            f"SELECT id FROM ({chosen}) AS chosen CROSS JOIN episodes ON id = chosen.episode_id"
            f" WHERE {'TRUE' if everything else SETTLED}"
            " AND NOT EXISTS (SELECT 1 FROM archived_episodes WHERE episode_id = id)"
            " ORDER BY ended_at, seq"
        ).fetchall()
        ids = [row["id"] for row in rows]
        for start in range(0, len(ids), PART_EPISODES):
            number = sql.execute("SELECT 1 + ifnull(max(number), 0) FROM archive_parts").fetchone()[
                0
            ]
            sql.execute("INSERT INTO archive_parts VALUES (?, 0)", (number,))
            sql.executemany(
                "INSERT INTO archived_episodes VALUES (?, ?, ?)",
                [
                    (episode_id, number, place)
                    for place, episode_id in enumerate(ids[start : start + PART_EPISODES])
                ],
            )
        sql.executemany(
            "DELETE FROM episodes_to_archive WHERE episode_id = ?", [(each,) for each in ids]
        )


def parts_unstored(journal: Journal) -> list[Part]:
    """The parts that the store is not known to have, in order."""
    with journal.database.transaction() as sql:
        rows = sql.execute(
            "SELECT number, episode_id FROM archive_parts JOIN archived_episodes ON part = number"
            " WHERE NOT stored ORDER BY number, place"
        ).fetchall()
    parts: dict[int, list[str]] = {}
    for row in rows:
        parts.setdefault(row["number"], []).append(row["episode_id"])
    return [Part(number, tuple(ids)) for number, ids in parts.items()]


def part_stored(journal: Journal, number: int) -> None:
    """The store has the part: it is not written again."""
    with journal.database.transaction() as sql:
        sql.execute("UPDATE archive_parts SET stored = 1 WHERE number = ?", (number,))
