"""Calls in the journal: each with its prompt, its sampled answers, and the totals that they add to
their episode.
"""

from gpu_runtime.journal.database import Database
from gpu_runtime.journal.episode_table import EpisodeTable
from gpu_runtime.journal.pruning import CallsPruned, pruned_among
from gpu_runtime.journal.records import CallRecord
from gpu_runtime.journal.rows import fetch_calls, insert_call


class CallTable:
    """Calls are never changed once they are recorded."""

    def __init__(self, database: Database, episodes: EpisodeTable) -> None:
        self._database, self._episodes = database, episodes

    def record(
        self, call: CallRecord, *, group_key: str | None = None, parent_prefix_length: int = 0
    ) -> None:
        """Keep a call of an open episode; the first one gives a group key to an episode that has
        none.

        ``parent_prefix_length`` counts the ids of the prompt that ``call.parent`` holds already.
        Raises EpisodeNotOpen, DiskFull.
        """
        self._database.check_room()
        with self._database.transaction() as sql:
            self._episodes.require_open(call.episode_id)
            insert_call(sql, call, parent_prefix_length)
            if call.status != "completed":
                return
            versions = [
                version for completion in call.completions for version in completion.versions_T
            ]
            sql.execute(
                "UPDATE episodes SET calls = calls + 1, sampled_tokens = sampled_tokens + :tokens,"
                " version_first = min(ifnull(version_first, :first), :first),"
                " version_last = max(ifnull(version_last, :last), :last),"
                " group_key = ifnull(group_key, :group_key) WHERE id = :id",
                {
                    "tokens": len(versions),
                    "first": min(versions, default=0),
                    "last": max(versions, default=0),
                    "group_key": group_key,
                    "id": call.episode_id,
                },
            )

    def of_request(self, episode_id: str, request_id: str) -> CallRecord | None:
        """The completed call that this request id got before, if any."""
        query = "SELECT id FROM calls WHERE episode_id = ? AND request_id = ?"
        row = self._database.row(query, episode_id, request_id)
        return (
            next(call for call in self.of_episode(episode_id) if call.id == row["id"])
            if row
            else None
        )

    def of_episode(self, episode_id: str) -> list[CallRecord]:
        """Every call of an episode in the order in which they were recorded, cancelled ones
        included.

        Raises CallsPruned where only the store has them.
        """
        with self._database.reading() as sql:
            calls = fetch_calls(sql, episode_id)
            if not calls and pruned_among(sql, [episode_id]):
                raise CallsPruned(f"the calls of {episode_id} are in the object store alone")
            return calls
