"""What the gateway refused of an episode's calls, kept with the end of the episode."""

from collections.abc import Iterable

from gpu_runtime.journal.database import Database
from tinkerscript.wire.episodes import RefusedCalls


class RefusalTable:
    """One row for each ended episode that had some: bounded, whatever an agent sends."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, episode_id: str, refused: RefusedCalls) -> None:
        """Write it within the transaction that ends the episode."""
        with self._database.transaction() as sql:
            sql.execute("INSERT OR REPLACE INTO refused_calls VALUES (?, ?)", (episode_id, refused.model_dump_json()))

    def of(self, episode_ids: Iterable[str]) -> dict[str, RefusedCalls]:
        """By id, of those of these episodes that had some."""
        names = list(episode_ids)
        rows = self._database.rows(
            f"SELECT episode_id, refused FROM refused_calls WHERE episode_id IN ({', '.join('?' * len(names))})", *names
        )
        return {row["episode_id"]: RefusedCalls.model_validate_json(row["refused"]) for row in rows}
