"""The open episodes of a session in memory, shared by the ledger, the admission queue and the
calls.
"""

from collections.abc import Callable, Iterable

from gpu_runtime.episodes.begun.groups import Begun
from gpu_runtime.episodes.open_episode import OpenEpisode
from gpu_runtime.journal.records import EpisodeRecord

# How long after the end of an episode another attempt at its task counts as on its way: a client
# that tries a failed one again, or whose next attempt has not arrived yet.
ON_THE_WAY_S = 2.0
# After so long without a call, a begin or an end, whoever plays may wait for a begin of its own
QUIET_S = 2.0


class OpenEpisodes:
    """By id. ``now`` is Unix time, and so is ``last_activity_at``: of any episode, the last sign of
    a client.
    """

    def __init__(
        self, records: Iterable[EpisodeRecord], *, idle_timeout_s: float, now: Callable[[], float]
    ) -> None:
        self.now, self.idle_timeout_s = now, idle_timeout_s
        self.last_activity_at = now()
        self._by_id = {record.id: OpenEpisode.of(record, now()) for record in records}
        self._worked_at = now()
        self._left_at: dict[str, float] = {}  # by group key: when the last of its episodes was over

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
        self.worked()

    def remove(self, episode_id: str) -> None:
        """It is over, or was never begun."""
        key, now = self._by_id.pop(episode_id).group_key, self.now()
        self._left_at = {name: at for name, at in self._left_at.items() if now < at + ON_THE_WAY_S}
        if key is not None:
            self._left_at[key] = now
        self.worked()

    def worked(self) -> None:
        """An episode began or ended, or a call of one did."""
        self._worked_at = self.now()

    def is_quiet(self) -> bool:
        """Whether no call runs and nothing has been done for QUIET_S."""
        return self.now() >= self._worked_at + QUIET_S and not any(
            each.calls for each in self._by_id.values()
        )

    def trained(self, policy_version: int) -> list[Begun]:
        """Those that may be trained once they end and that a client still works on, as far as can
        be seen."""
        now = self.now()
        return [
            Begun(each.id, each.group_key, each.oldest_version(policy_version), is_open=True)
            for each in self._by_id.values()
            if not each.eval and each.is_live(now)
        ]

    def on_the_way(self) -> set[str]:
        """The group keys of which an attempt has just ended, so that another one may follow."""
        return {key for key, at in self._left_at.items() if self.now() < at + ON_THE_WAY_S}

    def touch(self, episode: OpenEpisode | None = None) -> None:
        """A client was here, for ``episode`` if given: its idle time starts again."""
        self.last_activity_at = self.now()
        if episode is not None:
            episode.last_seen = self.last_activity_at

    def expiry(self, episode: OpenEpisode) -> str | None:
        """Why the episode is over by its deadline or idle time, or None."""
        return episode.expiry(self.now(), self.idle_timeout_s)
