"""The episodes of a session that are begun and not trained: those that wait, as the journal has
them, and open ones."""

from collections.abc import Iterable, Sequence

from gpu_runtime.episodes.begun.groups import Begun, Places, step_is_early
from gpu_runtime.episodes.open_episodes import OpenEpisodes
from gpu_runtime.journal.records import EpisodeRecord
from tinkerscript.wire.config import SessionConfig


class BegunEpisodes:
    """Judges by the rules of groups.py. Nothing is kept here, so a restart needs no more than the
    journal."""

    def __init__(self, config: SessionConfig, open_episodes: OpenEpisodes) -> None:
        self._config, self._open = config, open_episodes

    def places(
        self, waiting: Iterable[EpisodeRecord], groups_under_way: int, policy_version: int
    ) -> Places:
        """What is left of the groups that may be begun without one of them becoming stale."""
        groups = (1 + self._config.max_staleness) * self._config.tasks_per_batch - groups_under_way
        return Places(
            groups,
            self._config.grpo_n,
            [*map(_begun, waiting), *self._open_trained(policy_version)],
        )

    def _open_trained(self, policy_version: int) -> list[Begun]:
        """The open episodes that can still be trained: tokens of others are too old already."""
        oldest = policy_version - self._config.max_staleness
        return [each for each in self._open.trained(policy_version) if each.version >= oldest]

    def step_is_early(
        self, groups: Sequence[Sequence[EpisodeRecord]], waiting: Iterable[EpisodeRecord], step: int
    ) -> bool:
        """Whether step ``step`` of ``groups`` has to wait for an open episode that it would make
        stale."""
        chosen = {record.id: _begun(record) for group in groups for record in group}
        left = [_begun(record) for record in waiting if record.id not in chosen]
        return step_is_early(
            list(chosen.values()),
            [*left, *self._open_trained(step - 1)],
            step=step,
            grpo_n=self._config.grpo_n,
            batch_groups=self._config.tasks_per_batch,
            max_staleness=self._config.max_staleness,
            on_the_way=self._open.on_the_way(),
        )


def _begun(record: EpisodeRecord) -> Begun:
    return Begun(record.id, record.group_key or "", record.version_first or 0, is_open=False)
