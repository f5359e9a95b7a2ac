"""Beginning and ending episodes: which is the current one, what keeps it alive, what is said while
one waits.
"""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tinkerscript.arguments import wrong
from tinkerscript.connection.session_api import describe
from tinkerscript.connection.transport import Transport
from tinkerscript.connection.waiting import Wait, WaitingNotice
from tinkerscript.errors import NotFound, TinkerScriptError
from tinkerscript.sessions.session import Session
from tinkerscript.wire.episodes import (
    EpisodeBegin,
    EpisodeBegun,
    EpisodesHeartbeatResult,
    EpisodeView,
)

from .begins import LoopBegins, begin_request, is_in_event_loop
from .current_episode import CurrentEpisode
from .episode import Episode
from .episode_state import EpisodeState
from .heartbeats import Heartbeats
from .loop_warnings import SUPERSEDED, GroupWatch, NeverEnded


class EpisodeLoop(Session):
    """A session whose episodes this process begins, keeps alive and ends."""

    def __init__(
        self, transport: Transport, session_id: str, *, ready_timeout_s: float = 1800.0
    ) -> None:
        super().__init__(transport, session_id, ready_timeout_s=ready_timeout_s)
        self.heartbeats = Heartbeats(self._heartbeat)
        self._current = CurrentEpisode()
        self._notice = WaitingNotice(f"session {self.id}", lambda: describe(self.status()))
        self._loop_begins = LoopBegins()
        self._groups: GroupWatch | None = None
        self._never_ended = NeverEnded()

    def _heartbeat(self, episode_ids: Sequence[str]) -> EpisodesHeartbeatResult:
        try:
            return self.episodes_heartbeat(episode_ids)
        except NotFound as failure:
            if failure.code is None:  # a proxy's page: it proves nothing about the session
                raise
            return EpisodesHeartbeatResult(over=list(episode_ids), warnings={})

    def watch_groups(self, grpo_n: int, tasks_per_batch: int) -> None:
        """From now on, warn when a task is left before its group is full."""
        self._groups = GroupWatch(grpo_n, tasks_per_batch)

    def planned_attempts(self) -> AbstractContextManager[None]:
        """While it is entered, no group counts as left behind: what has not begun yet may be of
        it.
        """
        return self._groups.beginning() if self._groups is not None else nullcontext()

    def after_fork(self) -> None:
        """Called in a forked process: the parent's threads, which may have held locks, are not
        here.
        """
        if self._groups is not None:
            self._groups.after_fork()

    def begin_episode(
        self, task: str | None = None, eval: bool = False, timeout: float | None = None
    ) -> Episode:
        """Begin one run of the agent. It becomes the current episode of this thread or asyncio
        task.

        Attempts at one ``task`` are compared with each other; without it the first prompt of the
        episode tells them apart. ``eval`` episodes are served and counted but never trained.
        ``timeout``: seconds until the episode expires, whatever it does. An episode that this
        thread or task left open is abandoned as ``superseded``.

        In asyncio code use AsyncTinkerScript, or run whole rollouts with ``asyncio.to_thread``. A
        begin may wait for a training step; inside a running event loop, which it would stop, it
        raises BeginWouldBlock instead.

        Raises WaitTimeout (the session was not ready in ``begin_timeout_s``), SessionFailed,
        ServerUnreachable.
        """
        return self.begin_waiting(Wait(), task=task, eval=eval, timeout=timeout)

    def episode(
        self, task: str | None = None, eval: bool = False, timeout: float | None = None
    ) -> Episode:
        """As begin_episode(), for a ``with`` block: what the block does not end is abandoned.

        Example::

            with session.episode("3+4") as (base_url, api_key):
                session.end_episode(run_agent(base_url, api_key))
        """
        return self.begin_episode(task, eval, timeout)

    def begin_waiting(
        self, wait: Wait, *, task: str | None, eval: bool, timeout: float | None = None
    ) -> Episode:
        """As begin_episode(), with a wait that can be given up."""
        supersedes = self._current.superseded()
        state, episode = self.begin_for(wait, supersedes, task=task, eval=eval, timeout=timeout)
        self._current.set(state)
        return episode

    def put_aside(self) -> None:
        """The current episode of this thread or task stays open, and the next begin leaves it
        alone.
        """
        self._current.set(None)

    def begin_for(
        self,
        wait: Wait,
        supersedes: EpisodeState | None,
        *,
        task: str | None,
        eval: bool,
        timeout: float | None,
    ) -> tuple[EpisodeState, Episode]:
        """Begin for any caller; which episode is the current one is the caller's to note."""
        replaced = supersedes.id if supersedes is not None else None
        body = begin_request(task=task, eval=eval, timeout=timeout, supersedes=replaced)
        with self.planned_attempts():
            with self._notice.waiting(wait):
                begun = self._begun(body, wait)
            if supersedes is not None:
                supersedes.mark_closed(SUPERSEDED)
            return self.adopt(begun, task)

    def adopt(self, begun: EpisodeBegun, task: str | None) -> tuple[EpisodeState, Episode]:
        """An episode that was begun, here or in another process: from now on this process keeps it
        alive.
        """
        state = EpisodeState(self, begun.episode_id, on_closed=self._episode_closed)
        episode = Episode(state, begun, task=task)
        if self._groups is not None:
            self._groups.begun(state.id)
        self.heartbeats.add(state, episode, idle_timeout_s=begun.idle_timeout_s)
        return state, episode

    def _begun(self, body: EpisodeBegin, wait: Wait) -> EpisodeBegun:
        if not is_in_event_loop():
            return self.episode_begin(body, wait)
        return self._loop_begins.begin(
            lambda: self.episode_begin(body, wait), self._abandon_late, wait
        )

    def _abandon_late(self, episode_id: str) -> None:
        self.episode_abandon(episode_id, "begun after its caller had gone")

    def _episode_closed(self, state: EpisodeState) -> None:
        self._never_ended.closed(state.closed_because, state.refused_end)
        self.heartbeats.discard(state.id)
        if self._groups is not None:
            self._groups.closed(state.id, state.result)

    def end_episode(self, workflow_output: Any, *, episode: Episode | None = None) -> EpisodeView:
        """End an episode with its result: ``episode``, or else the current one of this thread or
        asyncio task.

        ``workflow_output``: a WorkflowOutput, an object or dict with the same fields, or a number.
        Returns, once the server has it on disk, what became of it. Ending again with the same
        output returns the same. Raises NoOpenEpisode and what Episode.end() raises.
        """
        if episode is not None:
            return _an_episode(episode).end(workflow_output)
        return self._current.to_end(workflow_output).end(workflow_output)

    def abort_episode(
        self, reason: str | BaseException = "aborted", *, episode: Episode | None = None
    ) -> EpisodeView:
        """Abandon an episode: ``episode``, or else the current one of this thread or asyncio task.

        Raises NoOpenEpisode, EpisodeClosed.
        """
        if episode is not None:
            return _an_episode(episode).abandon(reason)
        return self._current.to_abandon().abandon(reason)

    def leave_episodes(self, episode_ids: Sequence[str]) -> None:
        """Neither end nor abandon these from here on: what becomes of them is another process's."""
        for state in self.heartbeats.open_episodes():
            if state.id in episode_ids:
                state.mark_closed("left to another process")

    def abandon_open_episodes(self, timeout_s: float) -> None:
        """Abandon as ``closed`` every episode that this process has not ended; those that
        ``timeout_s`` does not reach expire on the server.
        """
        deadline = time.monotonic() + timeout_s
        for state in self.heartbeats.open_episodes():
            state.mark_closed("abandoned (closed)")
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                continue
            try:
                self.episode_abandon(
                    state.id, "closed", retry_timeout_s=min(left_s, self._transport.retry_timeout_s)
                )
            except TinkerScriptError as failure:
                if failure.status is None:
                    return  # the server is away: it expires them all by itself


def _an_episode(episode: Episode) -> Episode:
    if not isinstance(episode, Episode):
        raise wrong("episode", episode, "what begin_episode() returned")
    return episode
