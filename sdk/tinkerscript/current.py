"""Which episode is "the current one" of the thread or asyncio task that asks.

Two facts decide, because each alone is wrong. A context variable alone is inherited: a child task, or a thread started
with a copy of the context (asyncio.to_thread), would take its parent's episode for its own. The thread's identity
alone is reused: a pool's worker would take the episode of its previous piece of work for the present one's. So a
context variable holds the episode together with the thread or task that set it, and only that one gets it back.
"""

import asyncio
import threading
import weakref
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .life import EpisodeLife


@dataclass(frozen=True)
class _Slot:
    owner: "weakref.ref[Any]"  # weak, for the owner's own context holds this slot
    episode: "EpisodeLife"


# One variable for all sessions of the process: contexts keep variables alive for ever. Never changed in place.
_slots: ContextVar[Mapping["CurrentEpisode", _Slot]] = ContextVar("tinkerscript_current_episode")


class CurrentEpisode:
    """The latest episode that each thread or task began on one session, open or not."""

    def get(self) -> "EpisodeLife | None":
        """The caller's own latest episode; never one that it inherited."""
        slot = _slots.get({}).get(self)
        return slot.episode if slot is not None and slot.owner() is _caller() else None

    def set(self, episode: "EpisodeLife | None") -> None:
        """Make ``episode`` the caller's latest, or forget it."""
        others = {key: slot for key, slot in _slots.get({}).items() if key is not self}
        mine = {self: _Slot(weakref.ref(_caller()), episode)} if episode is not None else {}
        _slots.set({**others, **mine})


def _caller() -> "threading.Thread | asyncio.Task[Any]":
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        task = None
    return task if task is not None else threading.current_thread()
