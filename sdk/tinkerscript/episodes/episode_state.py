"""Whether an episode is open and how it ends: what the session itself keeps of it.

The user's Episode object is apart from this on purpose. Its presence means that the agent still
works on the episode; were it kept by the session, an agent that failed and was forgotten would look
alive to the server for ever.
"""

import logging
from collections.abc import Callable
from typing import Any

from tinkerscript.arguments import reason_of
from tinkerscript.connection.session_api import ABANDON_RETRY_S, SessionApi
from tinkerscript.errors import EpisodeClosed, InvalidReward, NotFound
from tinkerscript.outputs import workflow_output
from tinkerscript.wire import episodes as wire

log = logging.getLogger("tinkerscript")


class EpisodeState:
    """An episode from its begin to its end, as this process knows it. ``on_closed(self)`` is called
    once it is over."""

    def __init__(
        self, api: SessionApi, episode_id: str, *, on_closed: "Callable[[EpisodeState], object]"
    ) -> None:
        self.id = episode_id
        self.closed_because: str | None = None
        self.refused_end = ""  # why its last end was refused before it was sent
        self.api = api
        self._on_closed = on_closed
        self._warned = self._ended_again = False
        self._ended: tuple[wire.WorkflowOutput, wire.EpisodeView] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it can still be ended."""
        return self.closed_because is None

    @property
    def result(self) -> wire.EpisodeView | None:
        """What its end returned; None when this process has not ended it."""
        return self._ended[1] if self._ended is not None else None

    def can_end_with(self, output: Any) -> bool:
        """Whether end(output) can return: it is open, or was ended with the same output. Raises
        InvalidReward.
        """
        return self.is_open or (
            self._ended is not None and self._ended[0] == workflow_output(output)
        )

    def end(self, output: Any) -> wire.EpisodeView:
        """As Episode.end()."""
        try:
            output = workflow_output(output)
        except InvalidReward as refused:
            self.refused_end = refused.message
            raise
        if self._ended is not None and self._ended[0] == output:
            self._say_ended_before()
            return self._ended[1]
        self._check_open()
        try:
            view = self.api.episode_end(self.id, output)
        except (EpisodeClosed, NotFound):
            self.mark_closed("closed on the server")
            raise
        self._ended = (output, view)
        if view.eval and view.reason:
            log.warning(
                "Episode %s is evaluated and not trained: a call of it set %s, which the trainer "
                "cannot compute (the session's unsupported_sampling is eval_only).",
                self.id,
                view.reason,
            )
        self.say(view.warning)
        self.mark_closed("ended" if view.state is wire.EpisodeState.COMPLETED else view.state.value)
        return view

    def abandon(
        self, reason: str | BaseException, *, retry_timeout_s: float = ABANDON_RETRY_S
    ) -> wire.EpisodeView:
        """As Episode.abandon()."""
        reason = reason_of(reason)
        self._check_open()
        try:
            view = self.api.episode_abandon(self.id, reason, retry_timeout_s=retry_timeout_s)
        except (EpisodeClosed, NotFound):
            self.mark_closed("closed on the server")
            raise
        self.mark_closed(f"abandoned ({reason})")
        return view

    def heartbeat(self) -> wire.EpisodeView:
        """As Episode.heartbeat()."""
        view = self.api.when_ready(lambda: self.api.episode_heartbeat(self.id))
        self.say(view.warning)
        return view

    def say(self, warning: str | None) -> None:
        """Log once what the server found wrong with how the episode's calls are made."""
        if warning and not self._warned:
            self._warned = True
            log.warning("Episode %s: %s", self.id, warning)

    def mark_closed(self, because: str) -> None:
        """Note that it is over, without asking the server."""
        self.closed_because = because
        self._on_closed(self)

    def _say_ended_before(self) -> None:
        if self._ended_again:
            return
        self._ended_again = True
        log.warning(
            "Episode %s was ended before, with the same output; ending it again changes nothing. "
            "If this is another run"
            " of the agent, call begin_episode() before it: one episode is one attempt.",
            self.id,
        )

    def _check_open(self) -> None:
        if self.closed_because is not None:
            raise EpisodeClosed(f"Episode {self.id} is over already: {self.closed_because}.")
