"""One session by REST: everything that can be asked of it by id. The loop's own state is in client.py."""

import time
import uuid
from collections.abc import Callable, Collection, Iterator
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TypeVar

from . import batches, checkpoints, episode_files
from .checkpoints import TunedModel
from .errors import ClientClosed, SessionNotReady, WaitTimeout
from .states import describe, not_ready_in_time, raise_if_over
from .transport import Transport
from .wire.calls import CallView, EpisodeCalls
from .wire.checkpoints import CheckpointCreate, CheckpointDownload, CheckpointKind, CheckpointList, CheckpointView
from .wire.episodes import EpisodeAbandon, EpisodeEnd, EpisodeExport, EpisodeList, EpisodeView, WorkflowOutput
from .wire.events import Event, EventKind, EventPage
from .wire.sessions import Accounting, SessionList, SessionState, SessionView

T = TypeVar("T")
OnProgress = Callable[[str, str, int | None], object]

FOLLOW_WAIT_S = 5.0  # a closed client ends its followers within this; the server would hold a long poll for 20 s
READY_POLL_S = 2.0  # phase and queue position change without an event; look this often
EPISODE_CALL_TIMEOUT_S = 60.0  # the API and the gateway may each hold an episode call for 20 s
ABANDON_RETRY_S = 30.0  # an episode that cannot be abandoned expires anyway


def session_list(transport: Transport) -> Iterator[SessionView]:
    """Every session of the key's project, newest first."""
    cursor = None
    while True:
        page = transport.request("GET", "/v1/sessions", params={"cursor": cursor}, response=SessionList)
        yield from page.items
        cursor = page.next_cursor
        if not cursor:
            return


class Session:
    """A session of the server, by id. Every method is one request, or a bounded wait made of them.

    Example: ``Session(Transport(base_url, api_key), "ses_9f2c41d07ab3e85f").status().state``
    """

    def __init__(self, transport: Transport, session_id: str, *, ready_timeout_s: float = 1800.0) -> None:
        self.id = session_id
        self.ready_timeout_s = ready_timeout_s
        self._transport = transport
        self._path = f"/v1/sessions/{session_id}"

    @property
    def closed(self) -> bool:
        """Whether the connection was closed."""
        return self._transport.closed

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the end of the connection. Raises ClientClosed."""
        self._transport.sleep(seconds)

    def status(self) -> SessionView:
        """How the session stands now."""
        return self._transport.request("GET", self._path, response=SessionView)

    def accounting(self) -> Accounting:
        """Where every begun episode went; ``begun`` equals the sum of the other numbers."""
        path = f"{self._path}/accounting"
        return self.when_ready(lambda: self._transport.request("GET", path, response=Accounting))

    def episodes(self) -> Iterator[EpisodeView]:
        """Every episode, newest first."""
        cursor: str | None = None
        while True:
            page = self.when_ready(partial(self._episode_page, cursor))
            yield from page.items
            cursor = page.next_cursor
            if not cursor:
                return

    def episode_calls(self, episode_id: str) -> EpisodeCalls:
        """Every LLM call of an episode with its token ids, in the order of recording, and how they merged."""
        items: list[CallView] = []
        cursor: str | None = None
        while True:
            page = self.when_ready(partial(self._call_page, episode_id, cursor))
            items += page.items
            cursor = page.next_cursor
            if not cursor:
                return page.model_copy(update={"items": items})

    def events(
        self, after: int = 0, kinds: Collection[EventKind | str] | None = None, follow: bool = False
    ) -> Iterator[Event]:
        """The session's record after cursor ``after``, in order: state changes, metrics, events, logs.

        ``kinds`` keeps only those. ``follow`` waits for more until the session has ended or the client is closed.
        """
        wanted = None if kinds is None else {EventKind(kind) for kind in kinds}
        only = next(iter(wanted)) if wanted is not None and len(wanted) == 1 else None
        over = not follow  # whether the next empty page is the last
        while True:
            try:
                page = self.event_page(after, kind=only, wait_s=0.0 if over else FOLLOW_WAIT_S)
                if not page.items:
                    if over:
                        return
                    over = self.status().state.is_terminal
            except ClientClosed:
                if follow:
                    return
                raise
            yield from (event for event in page.items if wanted is None or event.kind in wanted)
            after = max(after, page.next_cursor)

    def event_page(self, after: int, *, kind: EventKind | None = None, wait_s: float = 0.0) -> EventPage:
        """One page of the record; waits up to ``wait_s`` (at most 20) for the next entry when there is none."""
        params = {"after": after, "kind": kind.value if kind else None, "wait_s": wait_s or None}
        return self._transport.request("GET", f"{self._path}/events", params=params, response=EventPage)

    def checkpoints(self) -> list[CheckpointView]:
        """Every checkpoint, newest first."""
        return self._transport.request("GET", f"{self._path}/checkpoints", response=CheckpointList).items

    def checkpoint(self, checkpoint_id: str) -> CheckpointView:
        """One checkpoint."""
        return self._transport.request("GET", f"{self._path}/checkpoints/{checkpoint_id}", response=CheckpointView)

    def checkpoint_request(self, kind: CheckpointKind) -> CheckpointView:
        """Ask the runtime for a checkpoint and return without waiting for it."""
        path, body = f"{self._path}/checkpoints", CheckpointCreate(kind=kind)
        return self._transport.request("POST", path, body=body, response=CheckpointView)

    def checkpoint_urls(self, checkpoint_id: str) -> CheckpointDownload:
        """Fresh presigned URLs of a committed checkpoint."""
        path = f"{self._path}/checkpoints/{checkpoint_id}/download"
        return self._transport.request("GET", path, response=CheckpointDownload)

    def save_checkpoint(self, *, timeout_s: float = 1800.0) -> CheckpointView:
        """Make a ``state`` checkpoint, from which training can resume, and wait until it is committed.

        Raises CheckpointFailed, SessionFailed, WaitTimeout.
        """
        return checkpoints.make(self, CheckpointKind.STATE, deadline=time.monotonic() + timeout_s)

    def download_tuned_model(
        self, path: str | PathLike[str] = "tuned_model", timeout_s: float = 1800.0, progress: bool = True
    ) -> TunedModel:
        """Export the tuned model and download it to the folder ``path`` as a Hugging Face folder.

        Resumes what an earlier attempt left and verifies the SHA-256 of every file. ``progress`` writes one line to
        stderr when it is a terminal. Raises DiskFull and PathInUse before anything is written, DownloadCorrupt,
        DownloadFailed, CheckpointFailed, SessionFailed, WaitTimeout after ``timeout_s`` seconds.
        """
        deadline = time.monotonic() + timeout_s
        made = checkpoints.make(self, CheckpointKind.MODEL, deadline=deadline)
        return checkpoints.download(self, made.id, path, deadline=deadline, progress=progress)

    def download_checkpoint(
        self, checkpoint_id: str, path: str | PathLike[str], timeout_s: float = 1800.0, progress: bool = True
    ) -> TunedModel:
        """Download a checkpoint that is committed already; otherwise as download_tuned_model()."""
        return checkpoints.download(self, checkpoint_id, path, deadline=time.monotonic() + timeout_s, progress=progress)

    def download_batch(self, batch: int | str, path: str | PathLike[str]) -> Path:
        """Write a batch as JSON lines: by its step, or by the name in a step_refused event. Raises NotFound."""
        return batches.download(self, self._transport, batch, path)

    def episode_urls(self) -> EpisodeExport:
        """Fresh presigned URLs of the episodes that have been archived. Raises Conflict while there are none."""
        return self._transport.request("GET", f"{self._path}/episodes/export", response=EpisodeExport)

    def download_episodes(
        self, path: str | PathLike[str] = "episodes", timeout_s: float = 1800.0, progress: bool = True
    ) -> list[Path]:
        """Bring every archived episode to the folder ``path``, as Parquet files with a row for each; answers them.

        An episode is archived with the next checkpoint after its fate is known, or when the session is suspended or
        stopped: call it again for the rest. Raises Conflict while there is none; else as download_tuned_model().
        """
        return episode_files.download(self, path, deadline=time.monotonic() + timeout_s, progress=progress)

    def stop(self) -> SessionView:
        """Ask the server to end the session; harmless when it has ended."""
        return self._transport.request("POST", f"{self._path}/stop", response=SessionView)

    def wait_released(self, timeout_s: float) -> SessionView:
        """Wait until the session has ended and its runtime is gone. Raises WaitTimeout."""
        return self._wait_until(lambda view: view.state.is_terminal, timeout_s, "end", None)

    def wait_ready(self, timeout_s: float, on_progress: OnProgress | None = None) -> SessionView:
        """Wait until the session serves; ``on_progress(state, phase, queue_position)`` hears of every change.

        A suspended session counts: its next episode wakes it. Raises SessionFailed, SessionEnded, WaitTimeout.
        """

        def serves(view: SessionView) -> bool:
            raise_if_over(view)
            return view.state in {SessionState.READY, SessionState.SUSPENDED}

        return self._wait_until(serves, timeout_s, "become ready", on_progress)

    def when_ready(self, send: Callable[[], T]) -> T:
        """What ``send`` answers, asked again while the session is not ready, up to ``ready_timeout_s``.

        Raises WaitTimeout, which tells the state and the position in the queue.
        """
        deadline = time.monotonic() + self.ready_timeout_s
        while True:
            try:
                return send()
            except SessionNotReady as busy:
                pause_s = max(0.1, busy.retry_after_s if busy.retry_after_s is not None else 1.0)
                if time.monotonic() + pause_s >= deadline:
                    raise not_ready_in_time(self, busy) from busy
                self._transport.sleep(pause_s)

    def episode_end(self, episode_id: str, output: WorkflowOutput) -> EpisodeView:
        """End an episode by id. Returns once the server has it on disk."""
        return self._episode_post(episode_id, "end", EpisodeEnd(output=output))

    def episode_abandon(self, episode_id: str, reason: str, *, retry_timeout_s: float = ABANDON_RETRY_S) -> EpisodeView:
        """Abandon an episode by id, trying for a short while only."""
        return self._transport.request(
            "POST",
            f"{self._path}/episodes/{episode_id}/abandon",
            body=EpisodeAbandon(reason=reason[:200] or "abandoned"),
            response=EpisodeView,
            timeout_s=min(EPISODE_CALL_TIMEOUT_S, max(5.0, retry_timeout_s)),
            retry_timeout_s=retry_timeout_s,
        )

    def episode_heartbeat(self, episode_id: str) -> EpisodeView:
        """Say once that an episode is alive; one try."""
        path = f"{self._path}/episodes/{episode_id}/heartbeat"
        return self._transport.request("POST", path, response=EpisodeView, timeout_s=10.0, retry_timeout_s=0.0)

    def _episode_post(self, episode_id: str, action: str, body: EpisodeEnd) -> EpisodeView:
        key = new_key()
        return self.when_ready(
            lambda: self._transport.request(
                "POST",
                f"{self._path}/episodes/{episode_id}/{action}",
                body=body,
                response=EpisodeView,
                idempotent_key=key,
                timeout_s=EPISODE_CALL_TIMEOUT_S,
            )
        )

    def _episode_page(self, cursor: str | None) -> EpisodeList:
        params = {"cursor": cursor}
        return self._transport.request("GET", f"{self._path}/episodes", params=params, response=EpisodeList)

    def _call_page(self, episode_id: str, cursor: str | None) -> EpisodeCalls:
        path, params = f"{self._path}/episodes/{episode_id}/calls", {"cursor": cursor}
        return self._transport.request("GET", path, params=params, response=EpisodeCalls)

    def _wait_until(
        self, done: Callable[[SessionView], bool], timeout_s: float, goal: str, on_progress: OnProgress | None
    ) -> SessionView:
        deadline = time.monotonic() + timeout_s
        told: tuple[str, str, int | None] | None = None
        cursor = 0
        while True:
            view = self.status()
            news = (view.state.value, view.phase, view.queue_position)
            if on_progress is not None and news != told:
                on_progress(*news)
                told = news
            if done(view):
                return view
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise WaitTimeout(
                    f"Session {self.id} did not {goal} in {timeout_s:g} s: {describe(view)}.",
                    hint="Wait longer, or look at its events: tinkerscript events " + self.id,
                )
            cursor = self._next_change(cursor, min(READY_POLL_S, left_s))

    def _next_change(self, cursor: int, wait_s: float) -> int:
        """Wait for the next entry of the record, for ``wait_s`` at most; answers the cursor after it."""
        started = time.monotonic()
        page = self.event_page(cursor, kind=EventKind.STATE, wait_s=wait_s)
        if not page.items:
            # A server that does not hold the request must not turn this into a busy loop.
            self._transport.sleep(wait_s - (time.monotonic() - started))
        return max(cursor, page.next_cursor)


def new_key() -> str:
    """A fresh Idempotency-Key, for one action however often it is sent."""
    return uuid.uuid4().hex
