"""TinkerScript: the object that a training loop holds. Connects, begins and ends episodes, brings the model home."""

import contextlib
import difflib
import os
import threading
from types import TracebackType
from typing import Any

from pydantic import ValidationError

from .current import CurrentEpisode
from .episode import Episode
from .errors import (
    AuthenticationError,
    InvalidRequest,
    NoOpenEpisode,
    SessionEnded,
    SessionFailed,
    TinkerScriptError,
    UnknownOption,
)
from .heartbeats import Heartbeats
from .life import EpisodeLife
from .outputs import sentences
from .session import EPISODE_CALL_TIMEOUT_S, OnProgress, Session, new_key
from .transport import Transport
from .wire.config import SessionConfig
from .wire.episodes import EpisodeBegin, EpisodeBegun, EpisodeView
from .wire.sessions import SessionCreate, SessionView

DEFAULT_BASE_URL = "http://127.0.0.1:8000"
FIRST_CONTACT_RETRY_S = 30.0  # a wrong address should say so soon
CLOSE_RETRY_S = 30.0
CLOSE_ABANDON_RETRY_S = 5.0


class TinkerScript(Session):
    """A training session for one agent loop. Safe to share between threads and asyncio tasks.

    Example::

        session = TinkerScript("SmolLM2-135M-Instruct", learning_rate=1e-5)
        base_url, api_key = session.begin_episode(task="3+4")
        ...                                        # any OpenAI-compatible agent code
        session.end_episode(WorkflowOutput(reward=1.0))
        model = session.download_tuned_model()
        session.close()
    """

    def __init__(
        self,
        base_model: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        name: str = "",
        session_id: str | None = None,
        wait_timeout_s: float = 900.0,
        begin_timeout_s: float = 1800.0,
        retry_timeout_s: float = 300.0,
        on_progress: OnProgress | None = None,
        **config: Any,
    ) -> None:
        """Start a session on ``base_model``, or attach to the running ``session_id``; returns when it is ready.

        ``base_url`` and ``api_key`` default to TINKERSCRIPT_BASE_URL and TINKERSCRIPT_API_KEY. ``config`` are the
        fields of SessionConfig. ``wait_timeout_s`` bounds the wait for the session, ``begin_timeout_s`` the wait of
        each episode call while the session is not ready, ``retry_timeout_s`` the retries while the server is away.
        ``on_progress(state, phase, queue_position)`` hears how the start goes.

        Raises UnknownOption, InvalidRequest, AuthenticationError, UnknownBaseModel, SessionFailed, ServerUnreachable,
        WaitTimeout. A session that was made here and did not become ready is stopped again.
        """
        wanted = _session_create(base_model, name, session_id, config)
        transport = connect(base_url, api_key, retry_timeout_s=retry_timeout_s)
        made_here = False
        try:
            if wanted is not None:
                session_id = _create(transport, wanted).id
                made_here = True
            super().__init__(transport, str(session_id), ready_timeout_s=begin_timeout_s)
            view = self.wait_ready(wait_timeout_s, on_progress)
            if base_model is not None and view.base_model != base_model:
                raise InvalidRequest(f"Session {view.id} trains {view.base_model}, not {base_model}.")
        except BaseException:  # Ctrl-C too: nobody would hold the session
            if made_here:
                transport.retry_timeout_s = CLOSE_ABANDON_RETRY_S
                with contextlib.suppress(TinkerScriptError):
                    self.stop()
            transport.close()
            raise
        self.base_model = view.base_model
        self.config = view.config
        self.heartbeats = Heartbeats(self.episode_heartbeat)
        self._current = CurrentEpisode()
        self._closing = threading.Lock()

    def __repr__(self) -> str:
        return f"<TinkerScript {self.id} {self.base_model}{' closed' if self.closed else ''}>"

    def begin_episode(self, task: str | None = None, eval: bool = False, timeout: float | None = None) -> Episode:
        """Begin one run of the agent. It becomes the current episode of this thread or asyncio task.

        Attempts at one ``task`` are compared with each other; without it the first prompt of the episode tells them
        apart. ``eval`` episodes are served and counted but never trained. ``timeout``: seconds until the episode
        expires, whatever it does. An episode that this thread or task left open is abandoned as ``superseded``.

        In asyncio code this call blocks the loop; run the whole rollout with ``asyncio.to_thread``, or keep the
        returned episode and end it explicitly: an executor's threads are shared, so they cannot tell your tasks
        apart. A begin may wait for a training step: a loop that begins and ends in separate ``asyncio.to_thread``
        calls needs an executor with more threads than episodes (``loop.set_default_executor``), or its ends wait
        behind its begins.

        Raises WaitTimeout (the session was not ready in ``begin_timeout_s``), SessionFailed, ServerUnreachable.
        """
        earlier = self._current.get()
        supersedes = earlier if earlier is not None and earlier.is_open else None
        try:
            body = EpisodeBegin(
                task=task, eval=eval, timeout_s=timeout, supersedes=supersedes.id if supersedes else None
            )
        except ValidationError as failure:
            raise InvalidRequest(f"The episode cannot begin: {sentences(failure)}") from failure
        if supersedes is None:
            self._current.set(None)  # what ended before this begin is not "the current one" if the begin fails
        key = new_key()
        begun = self.when_ready(
            lambda: self._transport.request(
                "POST",
                f"{self._path}/episodes",
                body=body,
                response=EpisodeBegun,
                idempotent_key=key,
                timeout_s=EPISODE_CALL_TIMEOUT_S,
            )
        )
        if supersedes is not None:
            supersedes.mark_closed("abandoned (superseded)")
        life = EpisodeLife(self, begun.episode_id)
        episode = Episode(self, life, begun, task=task)
        self._current.set(life)
        self.heartbeats.add(life, episode, idle_timeout_s=begun.idle_timeout_s)
        return episode

    def end_episode(self, workflow_output: Any, *, episode: Episode | None = None) -> EpisodeView:
        """End an episode with its result: ``episode``, or else the current one of this thread or asyncio task.

        ``workflow_output``: a WorkflowOutput, an object or dict with the same fields, or a number. Returns, once the
        server has it on disk, what became of it. Ending again with the same output answers the same. Raises
        NoOpenEpisode and what Episode.end() raises.
        """
        if episode is not None:
            return episode.end(workflow_output)
        current = self._current.get()
        if current is None or not current.can_end_with(workflow_output):
            raise _no_open_episode(current)
        return current.end(workflow_output)

    def abort_episode(self, reason: str = "aborted", *, episode: Episode | None = None) -> EpisodeView:
        """Abandon an episode: ``episode``, or else the current one of this thread or asyncio task.

        Raises NoOpenEpisode, EpisodeClosed.
        """
        if episode is not None:
            return episode.abandon(reason)
        current = self._current.get()
        if current is None or not current.is_open:
            raise _no_open_episode(current)
        return current.abandon(reason)

    def close(self, *, stop: bool = True, timeout_s: float = 120.0) -> None:
        """Abandon open episodes as ``closed``, stop the session, wait until its runtime is gone, end the connection.

        ``stop=False`` leaves the session running, for TinkerScript(session_id=...) to attach to. Does nothing the
        second time. Raises ServerUnreachable or WaitTimeout when the session could not be seen to end; all that this
        process holds is released all the same.
        """
        with self._closing:
            if self.closed:
                return
            self.heartbeats.close()
            self._transport.retry_timeout_s = min(self._transport.retry_timeout_s, CLOSE_RETRY_S)
            try:
                self._abandon_open_episodes()
                if stop:
                    with contextlib.suppress(SessionFailed, SessionEnded):  # it has ended, which is what was asked for
                        self.stop()
                        self.wait_released(timeout_s)
            finally:
                self._transport.close()

    def __enter__(self) -> "TinkerScript":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The loop's own exception matters more than a failing close().
        with contextlib.suppress(TinkerScriptError) if kind is not None else contextlib.nullcontext():
            self.close()

    def _abandon_open_episodes(self) -> None:
        for life in self.heartbeats.open_episodes():
            life.mark_closed("abandoned (closed)")
            try:
                self.episode_abandon(life.id, "closed", retry_timeout_s=CLOSE_ABANDON_RETRY_S)
            except TinkerScriptError as failure:
                if failure.status is None:
                    return  # the server is away: it expires them all by itself


def connect(base_url: str | None = None, api_key: str | None = None, *, retry_timeout_s: float = 300.0) -> Transport:
    """A connection by the given or the environment's address and key. Raises AuthenticationError without a key."""
    base_url = base_url or os.environ.get("TINKERSCRIPT_BASE_URL") or DEFAULT_BASE_URL
    api_key = (api_key or os.environ.get("TINKERSCRIPT_API_KEY") or "").strip()
    where = (
        f"Make one in the console at {base_url.rstrip('/')}/ or, on the server, with "
        "`python manage.py create_api_key EMAIL`; then set TINKERSCRIPT_API_KEY or pass api_key."
    )
    if not api_key:
        raise AuthenticationError("There is no API key.", hint=where)
    if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise AuthenticationError("The API key has characters that no key has.", hint=where)
    return Transport(base_url, api_key, retry_timeout_s=retry_timeout_s)


def session_config(options: dict[str, Any]) -> SessionConfig:
    """The checked options of a session. Raises UnknownOption, which names it and lists the known, or InvalidRequest."""
    known = list(SessionConfig.model_fields)
    unknown = [name for name in options if name not in known]
    if unknown:
        close = [match for name in unknown for match in difflib.get_close_matches(name, known, n=1)]
        meant = f"Did you mean {', '.join(close)}? " if close else ""
        raise UnknownOption(f"Unknown option {', '.join(unknown)}.", hint=f"{meant}Known options: {', '.join(known)}.")
    try:
        return SessionConfig(**options)
    except ValidationError as failure:
        raise InvalidRequest(f"The session cannot start: {sentences(failure)}") from failure


def _session_create(
    base_model: str | None, name: str, session_id: str | None, options: dict[str, Any]
) -> SessionCreate | None:
    """What to create, or None to attach."""
    config = session_config(options)
    if session_id is not None:
        if options or name:
            raise InvalidRequest(
                "A running session keeps its name and options: "
                f"{', '.join(['name'] * bool(name) + list(options))} cannot be given with session_id."
            )
        return None
    try:
        return SessionCreate(base_model=base_model or "", name=name, config=config)
    except ValidationError as failure:
        raise InvalidRequest(
            f"The session cannot start: {sentences(failure)}", hint="Give base_model, or session_id to attach."
        ) from failure


def _no_open_episode(last: EpisodeLife | None) -> NoOpenEpisode:
    known = "" if last is None else f"; its last, {last.id}, is over: {last.closed_because}"
    return NoOpenEpisode(f"This thread or asyncio task has no open episode{known}.")


def _create(transport: Transport, wanted: SessionCreate) -> SessionView:
    return transport.request(
        "POST",
        "/v1/sessions",
        body=wanted,
        response=SessionView,
        retry_timeout_s=min(FIRST_CONTACT_RETRY_S, transport.retry_timeout_s),
    )
