"""One session by REST: one request per method. What waits and downloads is in session.py."""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar, Unpack

from pydantic import BaseModel

from tinkerscript.arguments import count, wrong
from tinkerscript.errors import (
    SessionEnded,
    SessionFailed,
    SessionNotReady,
    TinkerScriptError,
    WaitTimeout,
)
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
from tinkerscript.wire.errors import ErrorCode
from tinkerscript.wire.events import Evaluation, Event, EventKind, EventPage
from tinkerscript.wire.reading.calls import EpisodeCalls
from tinkerscript.wire.sessions import Accounting, Failure, SessionState, SessionView
from tinkerscript.wire.training.changes import ConfigChange, ConfigUpdate

from .http_client import HttpOptions
from .transport import Sending, Transport
from .waiting import Wait

EPISODE_CALL_TIMEOUT_S = 60.0  # the API and the gateway may each hold an episode call for 20 s
ABANDON_RETRY_S = 30.0  # an episode that cannot be abandoned expires anyway
# of each request as an exception leaves a block: what failed there is to be seen soon
LEAVE_RETRY_S = 2.0


class Page(Protocol):
    @property
    def next_cursor(self) -> str | None: ...


T = TypeVar("T")
R = TypeVar("R", bound=BaseModel)
P = TypeVar("P", bound=Page)


def pages(read: Callable[[str | None], P]) -> Iterator[P]:
    """Every page of a list: ``read`` is given None, then the ``next_cursor`` of the page before."""
    cursor: str | None = None
    while True:
        page = read(cursor)
        yield page
        cursor = page.next_cursor
        if not cursor:
            return


def raise_if_over(view: SessionView) -> None:
    """Raises SessionFailed or SessionEnded when the session will never serve again."""
    if view.state is SessionState.FAILED:
        failure = view.failure or Failure(code="unknown", cause="The server gave no cause.")
        raise SessionFailed(
            f"Session {view.id} failed ({failure.code}): {failure.cause}",
            hint=failure.hint,
            code=ErrorCode.SESSION_FAILED.value,
            details={"failure": failure.model_dump()},
        )
    if view.state.is_terminal or view.state is SessionState.STOPPING:
        raise SessionEnded(f"Session {view.id} is {view.state.value}.")


def describe(view: SessionView) -> str:
    """State, phase and queue position in a few words."""
    parts = [f"state {view.state.value}"]
    if view.phase:
        parts.append(view.phase)
    if view.queue_position is not None:
        parts.append(f"position {view.queue_position} in the queue")
    return ", ".join(parts)


class SessionApi:
    """The requests about one session. Those that the session's runtime has to serve wait while it
    is not ready.

    Example: ``SessionApi(Transport(base_url, api_key), "ses_9f2c41d07ab3e85f").status().state``
    """

    def __init__(
        self, transport: Transport, session_id: str, *, ready_timeout_s: float = 1800.0
    ) -> None:
        if not isinstance(transport, Transport):
            raise wrong(
                "transport", transport, "a Transport; to attach, use TinkerScript(session_id=...)"
            )
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

    def read(self, path: str, response: type[R], **params: Any) -> R:
        """What ``path`` below the session's own returns, in every state of the session."""
        return self.send("GET", path, response, params=params)

    def send(self, method: str, path: str, response: type[R], **how: Unpack[Sending]) -> R:
        """As Transport.request(), of a ``path`` below the session's own."""
        return self._transport.request(method, f"{self._path}{path}", response=response, **how)

    def status(self) -> SessionView:
        """How the session stands now."""
        return self.read("", SessionView)

    def accounting(self) -> Accounting:
        """Where every begun episode went; ``begun`` equals the sum of the other numbers."""
        return self.when_ready(lambda: self.read("/accounting", Accounting))

    def stop(self) -> SessionView:
        """Ask the server to end the session; harmless when it has ended."""
        return self.send("POST", "/stop", SessionView)

    def suspend(self) -> SessionView:
        """Ask the server to save the session and give up its machine; its next episode or resume()
        wakes it.
        """
        return self.send("POST", "/suspend", SessionView)

    def resume(self, *, trainer_ranks: int | None = None) -> SessionView:
        """Bring a suspended session back, where ``trainer_ranks`` is given under that number of
        trainer processes.

        Returns without waiting. Afterwards wait_ready(timeout_s) waits; before, a suspended session
        counts as ready there. One that runs or waits stays as it is. Raises Conflict when it has
        ended, and for another ``trainer_ranks`` when it is not suspended; InvalidRequest with both
        sizes for a number of ranks that the server cannot give.
        """
        if trainer_ranks is not None:
            trainer_ranks = count("trainer_ranks", trainer_ranks, least=1)
        return self.send("POST", "/resume", SessionView, params={"trainer_ranks": trainer_ranks})

    def event_page(
        self, after: int, *, kind: EventKind | None = None, wait_s: float = 0.0
    ) -> EventPage:
        """One page of the record; waits up to ``wait_s`` (at most 20) for the next entry when there
        is none.
        """
        only = kind.value if kind else None
        return self.read("/events", EventPage, after=after, kind=only, wait_s=wait_s or None)

    def checkpoints(self) -> list[CheckpointView]:
        """Every checkpoint, newest first."""
        return self.read("/checkpoints", CheckpointList).items

    def checkpoint(self, checkpoint_id: str) -> CheckpointView:
        """One checkpoint."""
        return self.read(f"/checkpoints/{checkpoint_id}", CheckpointView)

    def checkpoint_request(self, kind: CheckpointKind) -> CheckpointView:
        """Ask the runtime for a checkpoint and return without waiting for it."""
        body = CheckpointCreate(kind=kind)
        return self.send("POST", "/checkpoints", CheckpointView, body=body)

    def checkpoint_pin(self, checkpoint_id: str, pinned: bool = True) -> CheckpointView:
        """Keep a checkpoint whatever its age, or let it go."""
        path, body = f"/checkpoints/{checkpoint_id}", CheckpointUpdate(pinned=pinned)
        return self.send("PATCH", path, CheckpointView, body=body)

    def evaluation_record(self, evaluation: Evaluation) -> Event:
        """Add what an evaluation measured to the session's record, where the console draws it."""
        return self.send("POST", "/evaluations", Event, body=evaluation)

    def checkpoint_urls(self, checkpoint_id: str) -> CheckpointDownload:
        """Fresh presigned URLs of a committed checkpoint."""
        return self.read(f"/checkpoints/{checkpoint_id}/download", CheckpointDownload)

    def episode_urls(self, annotations_after: int | None = None) -> EpisodeExport:
        """Fresh presigned URLs of the episodes that have been archived, with a page of what people
        said of them.

        Raises Conflict while there are none.
        """
        return self.read("/episodes/export", EpisodeExport, annotations_after=annotations_after)

    def episode_erase(self, episode_id: str) -> None:
        """Erase what the server keeps of an episode, which takes as long as the copy of a large
        journal.

        Raises Conflict while training needs it, or the session neither runs nor has ended;
        WaitTimeout.
        """
        path = f"{self._path}/episodes/{episode_id}"
        self.when_ready(lambda: self._transport.request("DELETE", path))

    def batch_stream(self, batch: int | str) -> AbstractContextManager[Iterator[bytes]]:
        """A batch as JSON lines, in pieces as they come; one try. Raises NotFound,
        ServerUnreachable.
        """
        return self._transport.stream(f"{self._path}/batches/{batch}")

    def episode_page(self, cursor: str | None) -> EpisodeList:
        """One page of the episodes, newest first; ``cursor`` is the page before's
        ``next_cursor``.
        """
        return self.when_ready(lambda: self.read("/episodes", EpisodeList, cursor=cursor))

    def call_page(self, episode_id: str, cursor: str | None) -> EpisodeCalls:
        """One page of an episode's calls, in the order of recording."""
        path = f"/episodes/{episode_id}/calls"
        return self.when_ready(lambda: self.read(path, EpisodeCalls, cursor=cursor))

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
        return self.send(
            "POST",
            f"/episodes/{episode_id}/abandon",
            EpisodeView,
            body=EpisodeAbandon(reason=reason[:200] or "abandoned"),
            timeout_s=min(EPISODE_CALL_TIMEOUT_S, max(5.0, retry_timeout_s)),
            retry_timeout_s=retry_timeout_s,
        )

    def episodes_rescore(self, body: EpisodesRescore) -> EpisodesRescored:
        """Other rewards for at most MAX_RESCORED episodes; sent again, it changes nothing more."""
        return self.when_ready(lambda: self.send("POST", "/rescore", EpisodesRescored, body=body))

    def config_update(self, body: ConfigUpdate) -> ConfigChange:
        """Other options from the next step on; sent again, it changes nothing more."""
        return self.when_ready(lambda: self.send("PATCH", "/config", ConfigChange, body=body))

    def episode_heartbeat(
        self, episode_id: str, *, retry_timeout_s: float | None = None
    ) -> EpisodeView:
        """Say that an episode is alive; returns how it stands. A lost connection does not fail it
        (0: one try).
        """
        path = f"/episodes/{episode_id}/heartbeat"
        return self.send("POST", path, EpisodeView, timeout_s=10.0, retry_timeout_s=retry_timeout_s)

    def episodes_heartbeat(self, episode_ids: Sequence[str]) -> EpisodesHeartbeatResult:
        """Say once that these episodes are alive, at most MAX_HEARTBEATS of them; one try."""
        return self.send(
            "POST",
            "/heartbeats",
            EpisodesHeartbeatResult,
            body=EpisodesHeartbeat(episode_ids=list(episode_ids)),
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

    def _not_ready_in_time(self, busy: SessionNotReady) -> WaitTimeout:
        """The error of a wait for the session that reached its bound: its state, and its position
        in the queue.
        """
        state = busy.details.get("state")
        position = busy.details.get("queue_position")
        if state is None:
            try:
                view = self.status()
                state, position = view.state.value, view.queue_position
            except TinkerScriptError:
                state = "unknown"
        queued = f", position {position} in the queue" if position is not None else ""
        return WaitTimeout(
            f"Session {self.id} was not ready in {self.ready_timeout_s:g} s (state: {state}"
            f"{queued}): {busy.message}",
            hint="Try again later, or give TinkerScript a longer begin_timeout_s.",
            code=busy.code,
            request_id=busy.request_id,
            status=busy.status,
            details={**busy.details, "state": state, "queue_position": position},
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
            lambda: self.send(
                "POST",
                f"/episodes{path}",
                response,
                body=body,
                idempotent_key=key,
                timeout_s=EPISODE_CALL_TIMEOUT_S,
            ),
            wait,
        )
