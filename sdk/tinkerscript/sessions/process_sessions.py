"""The sessions that this process holds: found again by id, and stopped when Ctrl-C ends the
process.
"""

import atexit
import contextlib
import os
import sys
import weakref
from typing import Protocol

from tinkerscript.errors import TinkerScriptError

CLOSE_TIMEOUT_S = 10.0


class Closable(Protocol):
    id: str

    @property
    def closed(self) -> bool: ...

    def close(self, *, stop: bool | None = None, timeout_s: float = 120.0) -> None: ...


_sessions: "weakref.WeakValueDictionary[tuple[str, str], Closable]" = weakref.WeakValueDictionary()
# by the process that made it
_to_stop: "weakref.WeakKeyDictionary[Closable, int]" = weakref.WeakKeyDictionary()


def add(session: Closable, key: tuple[str, str], *, stop_if_interrupted: bool) -> None:
    """Note a session under its server and id."""
    _sessions[key] = session
    if stop_if_interrupted:
        _to_stop[session] = os.getpid()


def get(key: tuple[str, str]) -> Closable | None:
    """The session of this process with this server and id."""
    return _sessions.get(key)


@atexit.register
def _stop_interrupted() -> None:
    """No session stays in the queue, or on a device, that only this process knew of."""
    if not issubclass(getattr(sys, "last_type", None) or object, KeyboardInterrupt):
        return
    for session, process in list(_to_stop.items()):
        if process == os.getpid() and not session.closed:
            with contextlib.suppress(TinkerScriptError):
                session.close(stop=True, timeout_s=CLOSE_TIMEOUT_S)
                sys.stderr.write(f"Interrupted: session {session.id} was stopped.\n")
