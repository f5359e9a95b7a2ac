"""What a session's runtime wrote last, also after its end; and that no log of this machine grows
for ever.
"""

import gzip
import logging
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError

from console.errors import SessionNotReady
from console.live.log_pages import ANCHOR_LINES, LogPage, LogPart, last_page, next_page
from console.live.models import LogChunk
from console.object_store import seaweedfs
from console.scheduling.launchers.choice import (
    OtherLauncher,
    launcher_get,
    launchers_elsewhere,
    session_launcher,
)
from console.scheduling.launchers.log_file import LOG, log_bound
from console.scheduling.launchers.options import LAUNCHERS
from console.scheduling.launchers.protocol import Launcher, LauncherUnavailable
from console.sessions.models import Session
from console.sessions.selectors import session_get
from console.users.models import Project
from tinkerscript.wire.config import HERE

log = logging.getLogger(__name__)


MAX_LINES, MAX_CHARACTERS = 5000, 1 << 20  # kept of a runtime that ends
MAX_CHUNKS = 10  # runtimes of a session whose ends are kept


def session_logs(
    *, project: Project, session_id: str, lines: int, containing: str = "", after: str = ""
) -> LogPage:
    """The last ``lines`` lines of the session's runtime, or of its last one; of those with
    ``containing`` (any case).

    With the cursor ``after`` the first ones after it, in the runtimes that followed too.
    Raises NotFound, InvalidRequest, SessionNotReady while they cannot be had.
    """
    session = session_get(project=project, session_id=session_id)
    try:
        read = MAX_LINES if containing or after else max(lines, ANCHOR_LINES)
        found = (
            _launcher(session).logs(session.launch_handle, lines=read)
            if session.launch_handle
            else []
        )
    except (LauncherUnavailable, OtherLauncher) as error:
        raise SessionNotReady(
            f"The runtime's log cannot be read now: {error}", hint="Ask again in a moment."
        ) from error
    living = (
        [LogPart(session.launch_handle["launch"], found)] if session.launch_handle and found else []
    )
    if not after:
        last = living or _kept(session_id)[-1:] or [LogPart("", [])]
        return last_page(last[-1], lines=lines, containing=containing)
    kept = [part for part in _kept(session_id) if not living or part.launch != living[0].launch]
    return next_page([*kept, *living], after=after, lines=lines, containing=containing)


def log_read(session: Session, launcher: Launcher) -> list[str]:
    """The last lines of a runtime that is about to be ended: its launcher may remove them with it.

    None where they cannot be read: that keeps no runtime from being ended.
    """
    assert session.launch_handle is not None, "a runtime that is ended was launched"
    try:
        return launcher.logs(session.launch_handle, lines=MAX_LINES)
    except (LauncherUnavailable, OSError) as error:
        log.warning("the log of %s could not be read: %s", session.id, error)
        return []


def log_keep(*, session_id: str, launch: str, lines: list[str]) -> None:
    """Keep what ``log_read`` read of a runtime that was ended; on a full disk it is lost, and
    nothing else.

    Of a session's runtimes the last ``MAX_CHUNKS`` are kept.
    """
    if text := "\n".join(lines)[-MAX_CHARACTERS:]:
        packed = gzip.compress(text.encode(), compresslevel=6, mtime=0)
        try:
            LogChunk.objects.update_or_create(
                session_id=session_id, launch=launch, defaults={"lines": packed}
            )
            kept = (
                LogChunk.objects.filter(session_id=session_id)
                .order_by("-id")
                .values_list("id", flat=True)
            )
            LogChunk.objects.filter(id__in=list(kept[MAX_CHUNKS:])).delete()
        except DatabaseError as error:
            log.warning("the log of %s could not be kept: %s", session_id, error)


def ends_kept(session_id: str, count: int) -> list[list[str]]:
    """The last lines of each of the last ``count`` runtimes of a session that were ended."""
    return [list(part.lines) for part in _kept(session_id)[-count:]]


def _kept(session_id: str) -> list[LogPart]:
    chunks = LogChunk.objects.filter(session_id=session_id).order_by("id")
    return [
        LogPart(each.launch, gzip.decompress(each.lines).decode().split("\n")) for each in chunks
    ]


def runtime_logs_bound() -> None:
    """Keep small what runtimes of this machine write; a container's log is bounded by its
    engine.
    """
    here = [name for name, row in LAUNCHERS.items() if row.runs_here]
    running = Session.objects.filter(launcher__in=here, launch_handle__isnull=False)
    for handle in filter(None, running.values_list("launch_handle", flat=True)):
        try:
            log_bound(Path(handle["folder"]) / LOG)
        except OSError as error:  # one that cannot be emptied leaves the others their turn
            log.warning("the log of %s could not be kept small: %s", handle["launch"], error)


def store_log_bound() -> None:
    """Keep small what the embedded store writes, where it runs."""
    try:
        log_bound(seaweedfs.log_path(settings.DATA))
    except OSError as error:
        log.warning("the log of the embedded store could not be kept small: %s", error)


def _launcher(session: Session) -> Launcher:
    return session_launcher(session, {HERE: _here()} if session.place == HERE else _elsewhere())


_here, _elsewhere = lru_cache(maxsize=1)(launcher_get), lru_cache(maxsize=1)(launchers_elsewhere)
