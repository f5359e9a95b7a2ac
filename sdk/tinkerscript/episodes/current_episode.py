"""Which episode is "the current one" of the thread or asyncio task that asks.

Two facts decide, because each alone is wrong. A context variable alone is inherited: a child task,
or a thread started with a copy of the context (asyncio.to_thread), would take its parent's episode
for its own. The thread's identity alone is reused: a pool's worker would take the episode of its
previous piece of work for the present one's. So a context variable holds the episode together with
the thread or task that set it, and only that one gets it back. A forked process is another caller
too.

In a notebook every cell runs in a task and a context of its own, yet for its author the cells are
one program: code that a cell runs itself, not a task that it started, shares one slot with all
cells.
"""

import asyncio
import os
import sys
import threading
import weakref
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType
from typing import Any

from tinkerscript.errors import NoOpenEpisode

from .episode_state import EpisodeState

ENDED_HINT = (
    "An episode is ended once, and its output cannot be changed. Begin the next one with "
    "begin_episode() before the agent runs again."
)


@dataclass(frozen=True)
class _Slot:
    owner: "weakref.ref[Any]"  # weak, for the owner's own context holds this slot
    process: int
    episode: EpisodeState


# One variable for all sessions of the process: contexts keep variables alive for ever. Never
# changed in place.
_slots: ContextVar[Mapping["CurrentEpisode", _Slot]] = ContextVar("tinkerscript_current_episode")


class CurrentEpisode:
    """The latest episode that each thread or task began on one session, open or not."""

    def __init__(self) -> None:
        self._of_cells: tuple[int, EpisodeState] | None = None  # process and episode

    def get(self) -> EpisodeState | None:
        """The caller's own latest episode; never one that it inherited."""
        if in_notebook_cell():
            process, episode = self._of_cells or (0, None)
            return episode if process == os.getpid() else None
        slot = _slots.get({}).get(self)
        if slot is None or slot.owner() is not _caller() or slot.process != os.getpid():
            return None
        return slot.episode

    def set(self, episode: EpisodeState | None) -> None:
        """Make ``episode`` the caller's latest, or forget it."""
        if in_notebook_cell():
            self._of_cells = None if episode is None else (os.getpid(), episode)
            return
        others = {key: slot for key, slot in _slots.get({}).items() if key is not self}
        mine = (
            {self: _Slot(weakref.ref(_caller()), os.getpid(), episode)}
            if episode is not None
            else {}
        )
        _slots.set({**others, **mine})

    def superseded(self) -> EpisodeState | None:
        """The caller's open episode, which a begin replaces. One that is over is forgotten: it is
        not "the current one" if the begin fails.
        """
        earlier = self.get()
        if earlier is not None and earlier.is_open:
            return earlier
        self.set(None)
        return None

    def to_end(self, output: Any) -> EpisodeState:
        """The caller's episode that ``output`` can end. Raises NoOpenEpisode, InvalidReward."""
        current = self.get()
        if current is None or not current.can_end_with(output):
            raise _no_open_episode(current)
        return current

    def to_abandon(self) -> EpisodeState:
        """The caller's open episode. Raises NoOpenEpisode."""
        current = self.get()
        if current is None or not current.is_open:
            raise _no_open_episode(current)
        return current


def _no_open_episode(last: EpisodeState | None) -> NoOpenEpisode:
    known = "" if last is None else f"; its last, {last.id}, is over: {last.closed_because}"
    return NoOpenEpisode(
        f"This thread or asyncio task has no open episode{known}.",
        hint="" if last is None or last.result is None else ENDED_HINT,
    )


def in_notebook_cell() -> bool:
    """Whether the caller's code belongs to a cell that IPython runs, and not to a thread or task of
    its own.
    """
    shell = sys.modules.get("IPython.core.interactiveshell")
    if shell is None or not shell.InteractiveShell.initialized():
        return False
    runs_cells, runs_tasks = shell.InteractiveShell.run_code.__code__, asyncio.Handle._run.__code__  # noqa: SLF001 - a task's frame, by no other name
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - documented; inspect's is far slower
    while frame is not None and frame.f_code is not runs_cells:
        if frame.f_code is runs_tasks:
            return False
        frame = frame.f_back
    return frame is not None


def _caller() -> "threading.Thread | asyncio.Task[Any]":
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        task = None
    return task if task is not None else threading.current_thread()
