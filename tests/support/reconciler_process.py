"""``manage.py reconcile`` with launchers that write down what they start, for tests of several
reconcilers.

    reconciler_process.py FOLDER            the reconciler; it leads or stands by as the real program does
    reconciler_process.py FOLDER COUNT      so many sessions for each place; the database is made where there is none

What is started is a line of FOLDER/launches: the place, the launch's name, the pid of the
reconciler. It runs for ever.
"""

import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]


class WritingLauncher:
    """Of one place."""

    def __init__(self, name: str, place: str, path: Path) -> None:
        self.name, self._place, self._path = name, place, path

    def new_handle(self, **launch: Any) -> dict[str, Any]:
        from console.scheduling.launchers.protocol import Launcher

        return Launcher.new_handle(**launch)

    def start(self, handle: dict[str, Any], *, environment: Any) -> dict[str, Any]:
        line = f"{self._place} {handle['launch']} {os.getpid()}\n"
        number = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(number, line.encode())  # at once: other processes write there too
        os.close(number)
        return handle

    def others_end(self, handle: dict[str, Any]) -> None:
        """Nothing is left of one that was replaced."""

    def inspect(self, handle: dict[str, Any]) -> Any:
        from console.scheduling.launchers.protocol import RuntimeStatus

        launched = self._path.read_text() if self._path.exists() else ""
        return RuntimeStatus("running" if f" {handle['launch']} " in launched else "gone")

    def stop(self, handle: dict[str, Any], *, grace_s: float) -> None:
        """What was never started."""

    def logs(self, handle: dict[str, Any], *, lines: int) -> list[str]:
        return []


def reconcile(folder: Path) -> None:
    from django.conf import settings
    from django.core.management import call_command

    from console.management.commands import reconcile as command
    from tinkerscript.wire.config import HERE

    path = folder / "launches"
    elsewhere = {name: WritingLauncher("slurm", name, path) for name in settings.PLACES}
    command.launcher_get = lambda: WritingLauncher("process", HERE, path)
    command.launchers_elsewhere = lambda: elsewhere
    command.warm_get = lambda launcher: None
    call_command("reconcile")


def fill(count: int) -> None:
    from django.conf import settings
    from django.core.management import call_command

    from console.users.models import Project
    from support import factories
    from tinkerscript.wire.config import HERE, SessionConfig

    call_command("migrate", interactive=False, verbosity=0)
    (settings.DATA / "models" / factories.BASE_MODEL).mkdir(parents=True, exist_ok=True)
    project = Project.objects.first() or Project.objects.get(
        memberships__user=factories.user_make("owner")
    )
    for _ in range(count):
        for place in (HERE, *settings.PLACES):
            factories.session_make(project, config=SessionConfig(place=place))


def clusters() -> dict[str, Any]:
    """Two places beside this machine, which are never looked for."""
    from console.scheduling.launchers.options import LauncherOptions
    from console.scheduling.launchers.places import Place
    from console.scheduling.launchers.protocol import Resources

    options = LauncherOptions(name="slurm", resources=Resources(memory_bytes=64 << 30, cpus=16))
    return {name: Place(name, "cpus", 1000, options) for name in ("east", "west")}


if __name__ == "__main__":
    import django
    from django.conf import settings

    django.setup()
    settings.PLACES = clusters()
    if len(sys.argv) > 2:
        fill(int(sys.argv[2]))
    else:
        reconcile(Path(sys.argv[1]))
