"""The keys of a session's episodes: signed when one begins, checked at every call."""

import math
from collections.abc import Callable

from gpu_runtime.journal.records import EpisodeRecord
from gpu_runtime.refusals import BadKey, EpisodeClosed
from tinkerscript.wire import episode_key
from tinkerscript.wire.dialects.table import PREFIX_OF_ALL
from tinkerscript.wire.episodes import EpisodeBegun
from tinkerscript.wire.runtime import Assignment


class EpisodeKeys:
    """Signs with the one key that this session was assigned; ``now`` is Unix time.

    What the key before it signed is taken too: an episode stays open while the server's secret is
    rotated.
    """

    def __init__(self, assignment: Assignment, now: Callable[[], float]) -> None:
        self._assignment, self._now = assignment, now
        self._key = bytes.fromhex(assignment.episode_signing_key)
        self._previous = [bytes.fromhex(key) for key in assignment.previous_episode_signing_keys]

    def begun(self, record: EpisodeRecord, policy_version: int, key_id: str) -> EpisodeBegun:
        """The response to a begin; the key is the same however often it is asked for.

        ``key_id`` is the API key it was begun with, empty when it was none.
        """
        deadline_at = math.ceil(record.deadline_at)
        claim = episode_key.EpisodeClaim(
            self._assignment.session_id, record.id, deadline_at, key_id
        )
        return EpisodeBegun(
            episode_id=record.id,
            api_key=episode_key.sign(self._key, claim),
            base_url=f"{self._assignment.public_url.rstrip('/')}{PREFIX_OF_ALL}/v1",
            model=self._assignment.base_model,
            policy_version=policy_version,
            idle_timeout_s=self._assignment.config.episode_idle_timeout_s,
            deadline_s=max(0.0, record.deadline_at - self._now()),
            max_context_length=self._assignment.config.max_context_length,
        )

    def episode_of(self, key: str) -> str:
        """The id of the episode that ``key`` belongs to. Raises BadKey, EpisodeClosed."""
        try:
            claim = episode_key.read(key)
            if claim.session_id != self._assignment.session_id:
                raise BadKey("this key belongs to another session", openai_code="invalid_api_key")
            episode_key.verify(key, self._key, *self._previous, now=self._now())
        except episode_key.BadEpisodeKey as error:
            if error.expired:
                raise EpisodeClosed("the episode of this key has expired") from None
            raise BadKey(
                f"the episode key is not valid: {error}", openai_code="invalid_api_key"
            ) from None
        return claim.episode_id
