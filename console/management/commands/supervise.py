"""``manage.py supervise web``: one process of the server, for a container, as ``up`` would keep it.

Compose and Kubernetes start a process again that has ended. One that was stopped, or hangs, has
not: it is looked at from here, and a new one takes its place within seconds in the one case and
about a minute in the other.
"""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from django.core.management.base import CommandParser

from console.management.base import ServerCommand
from console.scheduling.children.health import reconciler_leads, server_responds
from console.scheduling.children.supervisor import Child, Signals, Supervisor, python_start

LOOK_EVERY_S = 0.5
GRACE_S = 8.0  # Docker kills a container ten seconds after it asked it to end
SERVE = ("-m", "console.server.uvicorn")
PROCESSES = {
    "web": (SERVE, server_responds),
    "lease": ((*SERVE, "--lease"), server_responds),
    "reconcile": (("manage.py", "reconcile"), reconciler_leads),
}


class Command(ServerCommand):
    help = (
        "Run one process of the server, and start it again when it ended, was stopped or "
        "responds no more."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", choices=PROCESSES)

    def handle(self, name: str, **options: object) -> None:
        signals = Signals()
        command, probe = PROCESSES[name]
        with TemporaryDirectory() as folder:  # not in DATA, which containers share
            children = Supervisor(Path(folder))
            try:
                children.start(
                    Child(name, partial(python_start, *command), grace_s=GRACE_S, probe=probe)
                )
                while not signals.asked:
                    children.restart_dead()
                    signals.wait(LOOK_EVERY_S)
            finally:
                children.stop(name, force=lambda: False)
