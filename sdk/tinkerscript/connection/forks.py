"""What a forked process must not share with its parent: sockets, threads and locks that a thread
may have held.

A child that sent on its parent's sockets would read its parent's responses. So every object that
has sockets makes them anew in the child, before any other code runs there.
"""

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    def after_fork(self) -> None:
        """Make sockets, threads and locks anew. Runs in the child, where there is one thread."""


_watched: "weakref.WeakSet[Forkable]" = weakref.WeakSet()


def watch(holder: Forkable) -> None:
    """Call ``holder.after_fork()`` in every child that this process forks while ``holder``
    exists.
    """
    _watched.add(holder)


def _after_fork_in_child() -> None:
    for holder in list(_watched):
        holder.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_after_fork_in_child)
