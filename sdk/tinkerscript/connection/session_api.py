"""One session by REST: one request per method. What waits and downloads is in session.py."""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from pydantic import BaseModel

from tinkerscript.arguments import count
from tinkerscript.errors import SessionNotReady, TinkerScriptError
from tinkerscript.wire.calls import EpisodeCalls
from tinkerscript.wire.checkpoints import (
    CheckpointCreate,
    CheckpointDownload,
    CheckpointKind,
    CheckpointList,
    CheckpointUpdate,
    CheckpointView,
)
from tinkerscript.wire.episodes import (
    EpisodeAbandon,
    EpisodeBegin,
    EpisodeBegun,
    EpisodeEnd,
    EpisodeExport,
    EpisodeList,
    EpisodesHeartbeat,
    EpisodesHeartbeatResult,
    EpisodesRescore,
    EpisodesRescored,
    EpisodeView,
    WorkflowOutput,
)
from tinkerscript.wire.events import Evaluation, Event, EventKind, EventPage
from tinkerscript.wire.sessions import Accounting, SessionView
from tinkerscript.wire.training.changes import ConfigChange, ConfigUpdate

from .http_client import HttpOptions
from .session_errors import not_ready_in_time
from .transport import Transport
from .waiting import Wait

T = TypeVar("T")
R = TypeVar("R", bound=BaseModel)

EPISODE_CALL_TIMEOUT_S = 60.0  # the API and the gateway may each hold an episode call for 20 s
ABANDON_RETRY_S = 30.0  # an episode that cannot be abandoned expires anyway
# of each request as an exception leaves a block: what failed there is to be seen soon
LEAVE_RETRY_S = 2.0


class SessionApi:
    """The requests about one session. Those that the session's runtime has to serve wait while it
    is not ready.

    Example: ``SessionApi(Transport(base_url, api_key), "ses_9f2c41d07ab3e85f").status().state``
    """

    def __init__(
        self, transport: Transport, session_id: str, *, ready_timeout_s: float = 1800.0
    ) -> None:
        self.id = session_id
        self.ready_timeout_s = ready_timeout_s
        self._transport = transport
        self._path = f"/v1/sessions/{session_id}"

    @property
    def closed(self) -> bool:
        """Whether the connection was closed."""
        return self._transport.closed

    @property
    def http_options(self) -> HttpOptions:
        """How this session's connections are made."""
        return self._transport.options

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the end of the connection. Raises ClientClosed."""
        self._transport.sleep(seconds)

    def status(self) -> SessionView:
        """How the session stands now."""
        return self._transport.request("GET", self._path, response=SessionView)

    def read(self, path: str, response: type[R], **params: Any) -> R:
        """What ``path`` below the session's own returns, in every state of the session."""
        return self._transport.request(
            "GET", f"{self._path}{path}", params=params, response=response
        )

    def accounting(self) -> Accounting:
        """Where every begun episode went; ``begun`` equals the sum of the other numbers."""
        path = f"{self._path}/accounting"
        return self.when_ready(lambda: self._transport.request("GET", path, response=Accounting))

    def stop(self) -> SessionView:
        """Ask the server to end the session; harmless when it has ended."""
        return self._transport.request("POST", f"{self._path}/stop", response=SessionView)

    def suspend(self) -> SessionView:
        """Ask the server to save the session and give up its machine; its next episode or resume()
        wakes it.
        """
        return self._transport.request("POST", f"{self._path}/suspend", response=SessionView)

    def resume(self, *, trainer_ranks: int | None = None) -> SessionView:
        """Bring a suspended session back, where ``trainer_ranks`` is given under that number of
        trainer processes.

        Returns without waiting. Afterwards wait_ready(timeout_s) waits; before, a suspended session
        counts as ready there. One that runs or waits stays as it is. Raises Conflict when it has
        ended, and for another ``trainer_ranks`` when it is not suspended; InvalidRequest with both
        sizes for a number of ranks that the server cannot give.
        """
        params = (
            {}
            if trainer_ranks is None
            else {"trainer_ranks": count("trainer_ranks", trainer_ranks, least=1)}
        )
        return self._transport.request(
            "POST", f"{self._path}/resume", params=params, response=SessionView
        )

    def event_page(
        self, after: int, *, kind: EventKind | None = None, wait_s: float = 0.0
    ) -> EventPage:
        """One page of the record; waits up to ``wait_s`` (at most 20) for the next entry when there
        is none.
        """
        params = {"after": after, "kind": kind.value if kind else None, "wait_s": wait_s or None}
        return self._transport.request(
            "GET", f"{self._path}/events", params=params, response=EventPage
        )

    def checkpoints(self) -> list[CheckpointView]:
        """Every checkpoint, newest first."""
        return self._transport.request(
            "GET", f"{self._path}/checkpoints", response=CheckpointList
        ).items

    def checkpoint(self, checkpoint_id: str) -> CheckpointView:
        """One checkpoint."""
        return self._transport.request(
            "GET", f"{self._path}/checkpoints/{checkpoint_id}", response=CheckpointView
        )

    def checkpoint_request(self, kind: CheckpointKind) -> CheckpointView:
        """Ask the runtime for a checkpoint and return without waiting for it."""
        path, body = f"{self._path}/checkpoints", CheckpointCreate(kind=kind)
        return self._transport.request("POST", path, body=body, response=CheckpointView)

    def checkpoint_pin(self, checkpoint_id: str, pinned: bool = True) -> CheckpointView:
        """Keep a checkpoint whatever its age, or let it go."""
        path, body = f"{self._path}/checkpoints/{checkpoint_id}", CheckpointUpdate(pinned=pinned)
        return self._transport.request("PATCH", path, body=body, response=CheckpointView)

    def evaluation_record(self, evaluation: Evaluation) -> Event:
        """Add what an evaluation measured to the session's record, where the console draws it."""
        return self._transport.request(
            "POST", f"{self._path}/evaluations", body=evaluation, response=Event
        )

    def checkpoint_urls(self, checkpoint_id: str) -> CheckpointDownload:
        """Fresh presigned URLs of a committed checkpoint."""
        path = f"{self._path}/checkpoints/{checkpoint_id}/download"
        return self._transport.request("GET", path, response=CheckpointDownload)

    def episode_urls(self, annotations_after: int | None = None) -> EpisodeExport:
        """Fresh presigned URLs of the episodes that have been archived, with a page of what people
        said of them.

        Raises Conflict while there are none.
        """
        path, params = f"{self._path}/episodes/export", {"annotations_after": annotations_after}
        return self._transport.request("GET", path, params=params, response=EpisodeExport)

    def episode_erase(self, episode_id: str) -> None:
        """Erase what the server keeps of an episode, which takes as long as the copy of a large
        journal.

        Raises Conflict while training needs it, or the session neither runs nor has ended;
        WaitTimeout.
        """
        self.when_ready(
            lambda: self._transport.request("DELETE", f"{self._path}/episodes/{episode_id}")
        )

    def batch_stream(self, batch: int | str) -> AbstractContextManager[Iterator[bytes]]:
        """A batch as JSON lines, in pieces as they come; one try. Raises NotFound,
        ServerUnreachable.
        """
        return self._transport.stream(f"{self._path}/batches/{batch}")

    def episode_page(self, cursor: str | None) -> EpisodeList:
        """One page of the episodes, newest first; ``cursor`` is the page before's
        ``next_cursor``.
        """
        path, params = f"{self._path}/episodes", {"cursor": cursor}
        return self.when_ready(
            lambda: self._transport.request("GET", path, params=params, response=EpisodeList)
        )

    def call_page(self, episode_id: str, cursor: str | None) -> EpisodeCalls:
        """One page of an episode's calls, in the order of recording."""
        path, params = f"{self._path}/episodes/{episode_id}/calls", {"cursor": cursor}
        return self.when_ready(
            lambda: self._transport.request("GET", path, params=params, response=EpisodeCalls)
        )

    def episode_begin(self, body: EpisodeBegin, wait: Wait | None = None) -> EpisodeBegun:
        """Begin an episode. May wait for a training step, unless ``wait`` is given up."""
        return self._episode_post("", body, EpisodeBegun, wait)

    def episode_end(self, episode_id: str, output: WorkflowOutput) -> EpisodeView:
        """End an episode by id. Returns once the server has it on disk."""
        return self._episode_post(f"/{episode_id}/end", EpisodeEnd(output=output), EpisodeView)

    def episode_abandon(
        self, episode_id: str, reason: str, *, retry_timeout_s: float = ABANDON_RETRY_S
    ) -> EpisodeView:
        """Abandon an episode by id, trying for a short while only."""
        return self._transport.request(
            "POST",
            f"{self._path}/episodes/{episode_id}/abandon",
            body=EpisodeAbandon(reason=reason[:200] or "abandoned"),
            response=EpisodeView,
            timeout_s=min(EPISODE_CALL_TIMEOUT_S, max(5.0, retry_timeout_s)),
            retry_timeout_s=retry_timeout_s,
        )

    def episodes_rescore(self, body: EpisodesRescore) -> EpisodesRescored:
        """Other rewards for at most MAX_RESCORED episodes; sent again, it changes nothing more."""
        path = f"{self._path}/rescore"
        return self.when_ready(
            lambda: self._transport.request("POST", path, body=body, response=EpisodesRescored)
        )

    def config_update(self, body: ConfigUpdate) -> ConfigChange:
        """Other options from the next step on; sent again, it changes nothing more."""
        path = f"{self._path}/config"
        return self.when_ready(
            lambda: self._transport.request("PATCH", path, body=body, response=ConfigChange)
        )

    def episode_heartbeat(
        self, episode_id: str, *, retry_timeout_s: float | None = None
    ) -> EpisodeView:
        """Say that an episode is alive; returns how it stands. A lost connection does not fail it
        (0: one try).
        """
        path = f"{self._path}/episodes/{episode_id}/heartbeat"
        return self._transport.request(
            "POST", path, response=EpisodeView, timeout_s=10.0, retry_timeout_s=retry_timeout_s
        )

    def episodes_heartbeat(self, episode_ids: Sequence[str]) -> EpisodesHeartbeatResult:
        """Say once that these episodes are alive, at most MAX_HEARTBEATS of them; one try."""
        path, body = f"{self._path}/heartbeats", EpisodesHeartbeat(episode_ids=list(episode_ids))
        return self._transport.request(
            "POST",
            path,
            body=body,
            response=EpisodesHeartbeatResult,
            timeout_s=10.0,
            retry_timeout_s=0.0,
        )

    def when_ready(self, send: Callable[[], T], wait: Wait | None = None) -> T:
        """What ``send`` returns, sent again while the session is not ready, for up to
        ``ready_timeout_s``.

        Raises WaitTimeout, which names the state and the position in the queue; SessionNotReady
        once ``wait`` is given up.
        """
        deadline = time.monotonic() + self.ready_timeout_s
        while True:
            try:
                return send()
            except SessionNotReady as busy:
                if wait is not None:
                    wait.reason = busy.message
                    if wait.given_up.is_set():
                        raise
                pause_s = max(0.1, busy.retry_after_s if busy.retry_after_s is not None else 1.0)
                if time.monotonic() + pause_s >= deadline:
                    raise self._not_ready_in_time(busy) from busy
                self._transport.sleep(pause_s)

    def _not_ready_in_time(self, busy: SessionNotReady) -> TinkerScriptError:
        state = busy.details.get("state")
        position = busy.details.get("queue_position")
        if state is None:
            try:
                view = self.status()
                state = view.state.value
                position = view.queue_position
            except TinkerScriptError:
                state = "unknown"
        return not_ready_in_time(
            self.id, self.ready_timeout_s, busy, state=state, position=position
        )

    def _episode_post(
        self,
        path: str,
        body: EpisodeBegin | EpisodeEnd,
        response: type[R],
        wait: Wait | None = None,
    ) -> R:
        # one for all tries: a begin or end whose response was lost is not carried out twice
        key = uuid.uuid4().hex
        return self.when_ready(
            lambda: self._transport.request(
                "POST",
                f"{self._path}/episodes{path}",
                body=body,
                response=response,
                idempotent_key=key,
                timeout_s=EPISODE_CALL_TIMEOUT_S,
            ),
            wait,
        )
