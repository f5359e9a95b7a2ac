"""Whether an episode is open and how it ends: what the session itself keeps of it.

The user's Episode object is apart from this on purpose. Its presence says that somebody still works on the episode;
were it kept by the session, an agent that failed and was forgotten would look alive to the server for ever.
"""

from typing import TYPE_CHECKING, Any

from .errors import EpisodeClosed, NotFound
from .outputs import workflow_output
from .wire.episodes import EpisodeState, EpisodeView, WorkflowOutput

if TYPE_CHECKING:
    from .client import TinkerScript


class EpisodeLife:
    """An episode from its begin to its end, as this process knows it."""

    def __init__(self, session: "TinkerScript", episode_id: str) -> None:
        self.id = episode_id
        self.closed_because: str | None = None
        self._session = session
        self._ended: tuple[WorkflowOutput, EpisodeView] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it can still be ended."""
        return self.closed_because is None

    def can_end_with(self, output: Any) -> bool:
        """Whether end(output) has an answer: it is open, or was ended with the same output. Raises InvalidReward."""
        return self.is_open or (self._ended is not None and self._ended[0] == workflow_output(output))

    def end(self, output: Any) -> EpisodeView:
        """As Episode.end()."""
        output = workflow_output(output)
        if self._ended is not None and self._ended[0] == output:
            return self._ended[1]
        self._check_open()
        try:
            view = self._session.episode_end(self.id, output)
        except (EpisodeClosed, NotFound):
            self.mark_closed("closed on the server")
            raise
        self._ended = (output, view)
        self.mark_closed("ended" if view.state == EpisodeState.COMPLETED else view.state.value)
        return view

    def abandon(self, reason: str) -> EpisodeView:
        """As Episode.abandon()."""
        self._check_open()
        try:
            view = self._session.episode_abandon(self.id, reason)
        except (EpisodeClosed, NotFound):
            self.mark_closed("closed on the server")
            raise
        self.mark_closed(f"abandoned ({reason})")
        return view

    def mark_closed(self, because: str) -> None:
        """Note that it is over, without asking the server."""
        self.closed_because = because
        self._session.heartbeats.discard(self.id)

    def _check_open(self) -> None:
        if self.closed_because is not None:
            raise EpisodeClosed(f"Episode {self.id} is over already: {self.closed_because}.")
