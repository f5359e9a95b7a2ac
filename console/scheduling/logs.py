"""What a session's runtime wrote last; and that no log of this machine, the store's neither, grows for ever."""

import logging
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from console.errors import SessionNotReady
from console.object_store import seaweedfs
from console.scheduling.launchers.choice import OtherLauncher, launcher_get
from console.scheduling.launchers.log_file import LOG, log_bound
from console.scheduling.launchers.process import ProcessLauncher
from console.scheduling.launchers.protocol import Launcher, LauncherUnavailable
from console.sessions.models import Session
from console.sessions.selectors import session_get
from console.users.models import Project

log = logging.getLogger(__name__)


def session_logs(*, project: Project, session_id: str, lines: int) -> list[str]:
    """The last ``lines`` lines; none without a runtime. Raises NotFound, SessionNotReady while they cannot be had."""
    session = session_get(project=project, session_id=session_id)
    if not session.launch_handle:
        return []
    try:
        return _launcher().logs(session.launch_handle, lines=lines)
    except (LauncherUnavailable, OtherLauncher) as error:
        raise SessionNotReady(
            f"The runtime's log cannot be read now: {error}", hint="Ask again in a moment."
        ) from error


def runtime_logs_bound() -> None:
    """Keep small what runtimes of this machine write; a container's log is bounded by its engine."""
    running = Session.objects.filter(launcher=ProcessLauncher.name, launch_handle__isnull=False)
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


@lru_cache(maxsize=1)
def _launcher() -> Launcher:
    return launcher_get()
