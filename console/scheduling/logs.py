"""What a session's runtime wrote last."""

from functools import lru_cache

from console.errors import SessionNotReady
from console.scheduling.launchers.choice import OtherLauncher, launcher_get
from console.scheduling.launchers.protocol import Launcher, LauncherAway
from console.sessions.selectors import session_get
from console.users.models import Project


def session_logs(*, project: Project, session_id: str, lines: int) -> list[str]:
    """The last ``lines`` lines; none without a runtime. Raises NotFound, SessionNotReady while they cannot be had."""
    session = session_get(project=project, session_id=session_id)
    if not session.launch_handle:
        return []
    try:
        return _launcher().logs(session.launch_handle, lines=lines)
    except (LauncherAway, OtherLauncher) as error:
        raise SessionNotReady(
            f"The runtime's log cannot be read now: {error}", hint="Ask again in a moment."
        ) from error


@lru_cache(maxsize=1)
def _launcher() -> Launcher:
    return launcher_get()
