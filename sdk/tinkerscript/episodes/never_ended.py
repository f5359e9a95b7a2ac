"""Tells once of a loop whose episodes are never ended, by either way of beginning them."""

import logging

TOLD_AFTER = 3  # one may be of an agent that raised
SUPERSEDED, NOT_ENDED = "abandoned (superseded)", "abandoned (not_ended)"
WORDS = {
    SUPERSEDED: (
        "%d episodes in a row were begun and never ended: the next begin abandoned each "
        "(superseded), and none is"
        " trained. Where the agent raised an exception that the loop passed over, look at that; "
        "abort_episode(error)"
        " records it. Where it did not, call end_episode(reward) when it is done. What raises in "
        "the block of `with"
        " session.episode(task) as (base_url, api_key)` is recorded by itself."
    ),
    NOT_ENDED: (
        "%d blocks of `with session.episode(task)` in a row were left without an end: each episode "
        "was abandoned"
        " (not_ended), and none is trained. Call end_episode(reward) in the block when the agent "
        "is done."
    ),
}
log = logging.getLogger("tinkerscript")


class NeverEnded:
    """Of one session: episodes in a row, of all threads and tasks, that were begun and not
    ended."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def closed(self, because: str | None, refused_end: str) -> None:
        """An episode is over, for what ``EpisodeState.closed_because`` has; ``refused_end`` as
        there.
        """
        if self._in_a_row >= TOLD_AFTER:  # told once
            return
        self._in_a_row = self._in_a_row + 1 if because in WORDS else 0
        if because in WORDS and self._in_a_row == TOLD_AFTER:
            seen = f" The end of the last one was refused: {refused_end}" if refused_end else ""
            log.warning(WORDS[because] + "%s", TOLD_AFTER, seen)
