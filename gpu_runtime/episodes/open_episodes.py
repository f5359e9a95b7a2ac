"""The open episodes of a session in memory, shared by the ledger, the admission queue and the calls."""

from collections.abc import Callable, Iterable

from gpu_runtime.episodes.open_episode import OpenEpisode
from gpu_runtime.journal.records import EpisodeRecord


class OpenEpisodes:
    """By id. ``now`` is Unix time, and so is ``last_activity_at``: of any episode, the last sign of a client."""

    def __init__(self, records: Iterable[EpisodeRecord], *, idle_timeout_s: float, now: Callable[[], float]) -> None:
        self.now, self.idle_timeout_s = now, idle_timeout_s
        self.last_activity_at = now()
        self._by_id = {record.id: OpenEpisode.of(record, now()) for record in records}

    def __contains__(self, episode_id: str | None) -> bool:
        return episode_id in self._by_id

    def get(self, episode_id: str) -> OpenEpisode | None:
        """The episode, or None once it is over."""
        return self._by_id.get(episode_id)

    def all(self) -> list[OpenEpisode]:
        """A snapshot: it may be iterated over while episodes begin and end."""
        return list(self._by_id.values())

    def add(self, episode: OpenEpisode) -> None:
        """A new one."""
        self._by_id[episode.id] = episode

    def remove(self, episode_id: str) -> None:
        """It is over, or was never begun."""
        del self._by_id[episode_id]

    def touch(self, episode: OpenEpisode | None = None) -> None:
        """A client was here, for ``episode`` if given: its idle time starts again."""
        self.last_activity_at = self.now()
        if episode is not None:
            episode.last_seen = self.last_activity_at

    def expiry(self, episode: OpenEpisode) -> str | None:
        """Why the episode is over by its deadline or idle time, or None."""
        return episode.expiry(self.now(), self.idle_timeout_s)
