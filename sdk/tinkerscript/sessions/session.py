"""A session by id: its lists, waits and downloads, made of the requests in session_api.py."""

import logging
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Unpack

from tinkerscript.arguments import NamedArguments, deadline_after, wrong
from tinkerscript.connection.session_api import SessionApi, describe, pages, raise_if_over
from tinkerscript.connection.transport import Transport
from tinkerscript.connection.waiting import NOTICE_AFTER_S
from tinkerscript.curve import REWARD, Plot, picture_path, session_plot
from tinkerscript.downloads import checkpoints, record
from tinkerscript.downloads import episodes as episode_files
from tinkerscript.downloads.checkpoints import TunedModel
from tinkerscript.errors import ClientClosed, WaitTimeout
from tinkerscript.wire.checkpoints import CheckpointKind, CheckpointView
from tinkerscript.wire.episodes import EpisodesRescored, EpisodeView
from tinkerscript.wire.events import Event, EventKind
from tinkerscript.wire.reading.calls import EpisodeCalls
from tinkerscript.wire.reading.points import MEASURES, measures_unknown
from tinkerscript.wire.sessions import Accounting, SessionList, SessionState, SessionView
from tinkerscript.wire.training.changes import ConfigChange

from . import changes, flushing
from .changes import ChangeableOptions, Rewards

OnProgress = Callable[[str, str, int | None], object]

log = logging.getLogger("tinkerscript")

CURVE_KINDS = (EventKind.METRIC, EventKind.EVALUATION)
# a closed client ends its followers within this; the server would hold a long poll for 20 s
FOLLOW_WAIT_S = 5.0
POLL_INTERVAL_S = 2.0  # phase and queue position change without an event


def session_list(transport: Transport) -> Iterator[SessionView]:
    """Every session of the key's project, newest first."""

    def read(cursor: str | None) -> SessionList:
        return transport.request(
            "GET", "/v1/sessions", params={"cursor": cursor}, response=SessionList
        )

    for page in pages(read):
        yield from page.items


def _kinds_checked(kinds: Collection[EventKind | str]) -> set[EventKind]:
    known = [kind.value for kind in EventKind]
    if isinstance(kinds, str) or not all(kind in known for kind in kinds):
        raise wrong("kinds", kinds, f"a list of {', '.join(known)}")
    return {EventKind(kind) for kind in kinds}


class Session(SessionApi, NamedArguments):
    """A session of the server, by id. Every method is one request, or a bounded wait made of them.

    Example: ``Session(Transport(base_url, api_key), "ses_9f2c41d07ab3e85f").status().state``
    """

    made_by = (
        'TinkerScript(session_id="ses_...") attaches to a session that runs, '
        "TinkerScript(base_model) starts one; "
        "Session(transport, session_id) needs a connection that was made."
    )

    def episodes(self) -> Iterator[EpisodeView]:
        """Every episode, newest first."""
        for page in pages(self.episode_page):
            yield from page.items

    def episode_calls(self, episode_id: str) -> EpisodeCalls:
        """Every LLM call of an episode with its token ids, in the order of recording, and how they
        merged.
        """
        read = list(pages(partial(self.call_page, episode_id)))
        items = [call for page in read for call in page.items]
        return read[-1].model_copy(update={"items": items})

    def events(
        self, after: int = 0, kinds: Collection[EventKind | str] | None = None, follow: bool = False
    ) -> Iterator[Event]:
        """The session's record after cursor ``after``, in order: state changes, metrics, events,
        logs.

        ``kinds`` keeps only those. ``follow`` waits for more until the session has ended or the
        client is closed.
        """
        wanted = None if kinds is None else _kinds_checked(kinds)
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

    def plot(self, path: str | PathLike[str] | None = None, *, measure: str = REWARD) -> Plot:
        """``measure`` of every step, by default the mean reward, and with it what evaluations
        measured.

        The last expression of a notebook's cell shows it as a picture, print() as text; ``path``
        also writes it, as ``.svg``, or as ``.png`` where matplotlib is installed. Raises
        InvalidRequest for a measure that steps have not.
        """
        if measures_unknown([measure]):
            raise wrong(
                "measure", measure, f"one of {', '.join(sorted(MEASURES))}, or metrics/<name>"
            )
        if path is not None:
            path = picture_path(path)
        view = self.status()
        drawn = session_plot(
            f"{view.name or view.id}: {measure} by step", self.events(kinds=CURVE_KINDS), measure
        )
        if path is not None:
            drawn.save(path)
        return drawn

    def save_checkpoint(self, *, timeout_s: float = 1800.0) -> CheckpointView:
        """Make a ``state`` checkpoint, from which training can resume, and wait until it is
        committed.

        Raises CheckpointFailed, SessionFailed, WaitTimeout.
        """
        return checkpoints.make(self, CheckpointKind.STATE, deadline=deadline_after(timeout_s))

    def download_tuned_model(
        self,
        path: str | PathLike[str] = "tuned_model",
        timeout_s: float = 1800.0,
        progress: bool = True,
    ) -> TunedModel:
        """Export the tuned model and download it to the folder ``path`` as a Hugging Face folder.

        Resumes what an earlier attempt left and verifies the SHA-256 of every file. ``progress``
        writes one line to stderr when it is a terminal. Raises DiskFull and PathInUse before
        anything is written, DownloadCorrupt, DownloadFailed, CheckpointFailed, SessionFailed,
        WaitTimeout after ``timeout_s`` seconds.
        """
        deadline = deadline_after(timeout_s)
        view = self.status()
        before = describe(view)  # the phase of an export says nothing of the episodes
        made = checkpoints.make(self, CheckpointKind.MODEL, deadline=deadline)
        if made.step == 0:
            began = (
                f"checkpoint {view.started_from.checkpoint_id}"
                if view.started_from
                else "base model"
            )
            log.warning(
                "Session %s has trained no step: this is the %s as it was. Before the export it "
                "was in %s.",
                self.id, began, before,
            )  # fmt: skip
        return checkpoints.download(self, made.id, path, deadline=deadline, progress=progress)

    def download_checkpoint(
        self,
        checkpoint_id: str,
        path: str | PathLike[str],
        timeout_s: float = 1800.0,
        progress: bool = True,
    ) -> TunedModel:
        """Download a checkpoint that is committed already; otherwise as download_tuned_model()."""
        return checkpoints.download(
            self, checkpoint_id, path, deadline=deadline_after(timeout_s), progress=progress
        )

    def download_batch(self, batch: int | str, path: str | PathLike[str]) -> Path:
        """Write a batch as JSON lines: by its step, or by the name in a step_refused event. Raises
        NotFound.
        """
        return episode_files.batch_download(self, batch, path)

    def download_episodes(
        self,
        path: str | PathLike[str] = "episodes",
        timeout_s: float = 1800.0,
        progress: bool = True,
    ) -> list[Path]:
        """Bring every archived episode to the folder ``path``, as Parquet files with a row for
        each; returns them.

        What people said of episodes is beside them in ``annotations.jsonl``, where anybody did.

        An episode is archived with the next checkpoint after its fate is known, or when the session
        is suspended or stopped: call it again for the rest. Raises Conflict while there is none;
        else as download_tuned_model().
        """
        return episode_files.download(
            self, path, deadline=deadline_after(timeout_s), progress=progress
        )

    def rescore(self, rewards: Rewards) -> EpisodesRescored:
        """Give episodes that have ended and are not trained yet other rewards.

        ``rewards`` is a dict by episode id, or a function that is given each waiting episode, with
        what people said of it (``annotations``), and returns its reward or None to leave it. The
        rewards of single agents and calls stay. What was there before is kept, with who changed it.
        An episode that is trained, in a batch that is fixed, stale, open or for evaluation keeps
        its reward and is named in ``refused`` of the result. Raises InvalidReward before anything
        is sent, SessionEnded, WaitTimeout.
        """
        return changes.rescore(self, rewards)

    def update(self, **options: Unpack[ChangeableOptions]) -> ConfigChange:
        """Train the next step and those after it with another ``learning_rate`` or ``kl_coef``.

        The change is on disk when this returns; ``first_step`` of the result is the first step
        that it holds for. A batch that is fixed keeps the options of its step, also where a
        restarted runtime trains it again. ``kl_coef`` changes where the session began with one
        above 0 or trains LoRA adapters. Raises InvalidRequest for options that cannot change,
        UnknownOption, Conflict after max_steps, SessionEnded, WaitTimeout.
        """
        return changes.update(self, options)

    def download_record(
        self, path: str | PathLike[str] = "run", timeout_s: float = 1800.0, progress: bool = True
    ) -> Path:
        """Bring what the console shows of the run to the folder ``path``, as it is now, for
        ``tinkerscript view``.

        Record, curves, log, samples of the machine, and every episode that has ended, down to the
        token. Called again it brings it up to date. Returns the folder. Raises PathInUse where it
        holds another run; else as download_tuned_model().
        """
        return record.download(self, path, deadline=deadline_after(timeout_s), progress=progress)

    def flush(self, timeout_s: float = 1800.0) -> Accounting:
        """Wait until every batch that is complete has been trained; returns where every episode
        went.

        Says in the log what is left: groups that are not full, and full ones that are too few for a
        step. Call it before close() or download_tuned_model(). Raises WaitTimeout, SessionFailed,
        SessionEnded.
        """
        return flushing.flush(self, timeout_s)

    def wait_released(self, timeout_s: float) -> SessionView:
        """Wait until the session has ended and its runtime is gone. Raises WaitTimeout."""
        return self._wait_until(lambda view: view.state.is_terminal, timeout_s, "end", None)

    def wait_ready(self, timeout_s: float, on_progress: OnProgress | None = None) -> SessionView:
        """Wait until the session serves; ``on_progress(state, phase, queue_position)`` is called at
        every change.

        A suspended session counts: its next episode wakes it. Raises SessionFailed, SessionEnded,
        WaitTimeout.
        """

        def serves(view: SessionView) -> bool:
            raise_if_over(view)
            return view.state in {SessionState.READY, SessionState.SUSPENDED}

        return self._wait_until(serves, timeout_s, "become ready", on_progress)

    def _wait_until(
        self,
        done: Callable[[SessionView], bool],
        timeout_s: float,
        goal: str,
        on_progress: OnProgress | None,
    ) -> SessionView:
        deadline = deadline_after(timeout_s)
        notice = time.monotonic() + NOTICE_AFTER_S
        reported: tuple[str, str, int | None] | None = None
        cursor = 0
        while True:
            view = self.status()
            news = (view.state.value, view.phase, view.queue_position)
            if on_progress is not None and news != reported:
                on_progress(*news)
                reported = news
            if done(view):
                return view
            if on_progress is None and news != reported and time.monotonic() >= notice:
                log.warning("Session %s is not there yet: %s.", self.id, describe(view))
                reported = news
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise WaitTimeout(
                    f"Session {self.id} did not {goal} in {timeout_s:g} s: {describe(view)}.",
                    hint="Wait longer, or look at its events: tinkerscript events " + self.id,
                )
            cursor = self._next_change(cursor, min(POLL_INTERVAL_S, left_s))

    def _next_change(self, cursor: int, wait_s: float) -> int:
        """Wait for the next entry of the record, for ``wait_s`` at most; returns the cursor after
        it.
        """
        started = time.monotonic()
        page = self.event_page(cursor, kind=EventKind.STATE, wait_s=wait_s)
        if not page.items:
            # A server that does not hold the request must not turn this into a busy loop.
            self._transport.sleep(wait_s - (time.monotonic() - started))
        return max(cursor, page.next_cursor)
