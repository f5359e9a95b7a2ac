"""TinkerScript: the object that a training loop holds. Connects, begins and ends episodes, brings
the model home.
"""

import asyncio
import atexit
import contextlib
import logging
import os
import sys
import threading
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Unpack

from .arguments import check_client_options, seconds
from .connection import forks
from .connection.connecting import connect
from .connection.http_client import HttpOptions
from .connection.session_api import LEAVE_RETRY_S
from .errors import (
    InvalidRequest,
    SessionEnded,
    SessionFailed,
    TinkerScriptError,
)
from .rollouts.session_rollouts import SessionRollouts
from .sessions import flushing, starting
from .sessions.session import OnProgress
from .sessions.session_options import SessionOptions
from .wire.sessions import Budget, SessionCreate

CLOSE_RETRY_S = 30.0
CLOSE_ABANDON_S = 5.0  # for all of them together
INTERRUPTED_CLOSE_S = 10.0
log = logging.getLogger("tinkerscript")
# The sessions that this process holds, by server and id; and those that it made, by the process
# that did, for a forked one is another.
_sessions: "weakref.WeakValueDictionary[tuple[str, str], TinkerScript]" = (
    weakref.WeakValueDictionary()
)
_to_stop: "weakref.WeakKeyDictionary[TinkerScript, int]" = weakref.WeakKeyDictionary()


def options_check(given: Mapping[str, Any]) -> SessionCreate | None:
    """The arguments of TinkerScript(), by name: the session to create, or None to attach to one.
    Raises InvalidRequest and UnknownOption.
    """
    check_client_options(given)
    own = {field: given[field] for field in ("name", "priority", "budget")}
    return starting.session_request(
        given["base_model"], given["session_id"], given["config"], **own
    )


class TinkerScript(SessionRollouts):
    """A training session for one agent loop. Safe to share between threads and asyncio tasks.

    Example::

        session = TinkerScript("SmolLM2-135M-Instruct", learning_rate=1e-5)
        base_url, api_key = session.begin_episode(task="3+4")
        ...                                        # any OpenAI-compatible agent code
        session.end_episode(WorkflowOutput(reward=1.0))
        model = session.download_tuned_model()
        session.close()
    """

    made_by = (
        "Only the base model has no name: TinkerScript(base_model, base_url=..., api_key=..., "
        "grpo_n=8). TINKERSCRIPT_BASE_URL and TINKERSCRIPT_API_KEY say the server and the key."
    )

    def __init__(
        self,
        base_model: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        name: str = "",
        session_id: str | None = None,
        priority: int | None = None,
        budget: Budget | Mapping[str, int] | None = None,
        wait_timeout_s: float = 900.0,
        begin_timeout_s: float = 1800.0,
        retry_timeout_s: float = 300.0,
        timeout_s: float = 30.0,
        proxy: str | None = None,
        ca_file: str | None = None,
        on_progress: OnProgress | None = None,
        **config: Unpack[SessionOptions],
    ) -> None:
        """Start a session on ``base_model``, or attach to the running ``session_id``; returns when
        it is ready.

        ``base_model`` is a name of the catalogue, or what the key's project has trained: the id of
        a checkpoint (``"ckp_..."``) or a Tinker client's path (``"tinker://..."``). A ``model``
        gives its weights, a ``state`` the optimizer's moments too; steps count from 0.

        ``base_url`` and ``api_key`` default to TINKERSCRIPT_BASE_URL and TINKERSCRIPT_API_KEY.
        ``config`` are the fields of SessionConfig. ``priority``: among the project's own queued
        sessions, higher goes first. ``budget``: what it may use, such as ``{"device_s": 3600}``; at
        a limit it makes a model checkpoint and stops.

        ``wait_timeout_s`` bounds the wait for the session, ``begin_timeout_s`` the wait of each
        episode call while the session is not ready, ``retry_timeout_s`` the retries while the
        server is away, ``timeout_s`` one try. ``proxy`` is the URL of a proxy, ``ca_file`` a PEM
        file of certificates to trust beside the system's. ``on_progress(state, phase,
        queue_position)`` is called as the start goes on; without it the log has after five seconds
        what the session waits for.

        Raises UnknownOption, InvalidRequest, AuthenticationError, UnknownBaseModel, NotFound,
        SessionFailed, ServerUnreachable, IncompatibleServer, WaitTimeout. A session that was made
        here and did not become ready is stopped again.
        """
        wanted = options_check(locals())
        options = HttpOptions(proxy=proxy, ca_file=ca_file, timeout_s=timeout_s)
        transport = connect(base_url, api_key, retry_timeout_s=retry_timeout_s, options=options)
        try:
            if wanted is not None:
                session_id = starting.session_create(transport, wanted).id
            super().__init__(transport, str(session_id), ready_timeout_s=begin_timeout_s)
            self._wait_until_ready(
                base_model, wait_timeout_s, on_progress, made_here=wanted is not None
            )
        except BaseException:
            transport.close()
            raise
        self._closing = threading.Lock()
        self._process = os.getpid()
        forks.watch(self)
        _sessions[transport.base_url, self.id] = self
        if wanted is not None:
            _to_stop[self] = os.getpid()

    def _wait_until_ready(
        self,
        base_model: str | None,
        timeout_s: float,
        on_progress: OnProgress | None,
        *,
        made_here: bool,
    ) -> None:
        try:
            view = self.wait_ready(timeout_s, on_progress)
            if (
                base_model is not None
                and not made_here
                and base_model not in starting.names_of(view)
            ):
                raise InvalidRequest(
                    f"Session {view.id} trains {view.base_model}, not {base_model}."
                )
        except BaseException:  # Ctrl-C too: no one would hold the session
            if made_here:
                self._transport.retry_timeout_s = CLOSE_ABANDON_S
                with contextlib.suppress(TinkerScriptError):
                    self.stop()
            raise
        self.base_model = view.base_model
        self.started_from = view.started_from
        self.config = view.config
        self.watch_groups(view.config.grpo_n, view.config.tasks_per_batch)

    def __repr__(self) -> str:
        return f"<TinkerScript {self.id} {self.base_model}{' closed' if self.closed else ''}>"

    def close(self, *, stop: bool | None = None, timeout_s: float = 120.0) -> None:
        """Abandon open episodes as ``closed``, stop the session, wait until its runtime is gone,
        end the connection.

        ``stop=False`` leaves the session running, for TinkerScript(session_id=...) to attach to;
        that is the default in a forked process and of a session that came by pickle, where others
        still use it. Does nothing the second time. Raises ServerUnreachable or WaitTimeout when the
        session could not be seen to end; all that this process holds is released all the same.
        """
        timeout_s = seconds("timeout_s", timeout_s)
        if stop is None:
            stop = self._process == os.getpid()
        with self._closing:
            if self.closed:
                return
            self.heartbeats.close()
            self._transport.retry_timeout_s = min(
                self._transport.retry_timeout_s, CLOSE_RETRY_S, timeout_s
            )
            try:
                self.abandon_open_episodes(CLOSE_ABANDON_S)
                if stop:
                    # it has ended, which is what was asked for
                    with contextlib.suppress(SessionFailed, SessionEnded):
                        flushing.warn_about_waiting(self)
                        self.stop()
                        self.wait_released(timeout_s)
            finally:
                self._transport.close()

    def after_fork(self) -> None:
        """Called in a forked process: the parent's threads, which may have held these, are not
        here.
        """
        self._closing = threading.Lock()
        super().after_fork()

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process: attached by id, with connections of its own. The API key travels
        along.
        """
        transport, options = self._transport, self._transport.options
        settings = {
            "base_url": transport.base_url,
            "api_key": transport.token,
            "begin_timeout_s": self.ready_timeout_s,
            "retry_timeout_s": transport.retry_timeout_s,
            "timeout_s": options.timeout_s,
            "proxy": options.proxy,
            "ca_file": options.ca_file,
        }
        return attach, (self.id, settings)

    def __enter__(self) -> "TinkerScript":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
            return
        self._transport.retry_timeout_s = min(self._transport.retry_timeout_s, LEAVE_RETRY_S)
        try:
            if issubclass(
                kind, (KeyboardInterrupt, asyncio.CancelledError)
            ):  # who pressed Ctrl-C waits for no server that is away
                self.close(timeout_s=INTERRUPTED_CLOSE_S)
            else:
                self.close()
        except TinkerScriptError as problem:  # the loop's own exception matters more
            log.warning(
                "Session %s could not be stopped, and may still run: %s Stop it with: tinkerscript "
                "stop %s",
                self.id, problem, self.id,
            )  # fmt: skip


def attach(session_id: str, settings: dict[str, Any]) -> TinkerScript:
    """The session with this id in this process: the one that is here already, or a new connection
    to it by TinkerScript's arguments.
    """
    here = _sessions.get((settings["base_url"], session_id))
    if here is not None and not here.closed:
        return here
    attached = TinkerScript(session_id=session_id, **settings)
    attached._process = -1  # close() here does not stop what others use  # noqa: SLF001 - this module's own class
    return attached


@atexit.register
def _stop_interrupted() -> None:
    """No session stays in the queue, or on a device, that only this process knew of."""
    if not issubclass(getattr(sys, "last_type", None) or object, KeyboardInterrupt):
        return
    for session, process in list(_to_stop.items()):
        if process == os.getpid() and not session.closed:
            with contextlib.suppress(TinkerScriptError):
                session.close(stop=True, timeout_s=INTERRUPTED_CLOSE_S)
                sys.stderr.write(f"Interrupted: session {session.id} was stopped.\n")
