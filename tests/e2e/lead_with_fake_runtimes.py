"""A reconciler that launches a script of this folder as the runtime. Started before ``manage.py
up``, it leads; the server's own stands by. Usage: ``lead_with_fake_runtimes.py [fake_runtime.py]``.

SIGUSR1 pauses it until SIGCONT, between two ticks: one that is stopped in the middle of a tick may
hold the database's lock, for which a server waits that is to end meanwhile.
"""

import signal
import sys
import time
from pathlib import Path
from typing import Any

import django

# as that of the product; every look costs 10 ms of a core, as long as the server is there
TICK_S = 0.5


def clusters(command: tuple[str, ...]) -> dict[str, Any]:
    """The launchers of further places, which are of Slurm."""
    from django.conf import settings

    from console.scheduling.launchers.slurm import SlurmLauncher

    return {
        place.name: SlurmLauncher(
            command, options=place.options.slurm_options, resources=place.options.resources
        )
        for place in settings.PLACES.values()
    }


def main() -> None:
    django.setup()
    from django.core.management import call_command

    from console.scheduling.launchers.process import ProcessLauncher
    from console.scheduling.reconcile import Reconciler

    call_command("migrate", interactive=False, verbosity=0)
    script = Path(__file__).with_name(sys.argv[1] if len(sys.argv) > 1 else "fake_runtime.py")
    command = (sys.executable, str(script))
    reconciler = Reconciler(ProcessLauncher(command), elsewhere=clusters(command))
    while not reconciler.reconcile_once():
        time.sleep(TICK_S)
    pauses: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: pauses.append(number))
    print("leading", flush=True)
    while True:
        reconciler.reconcile_once()
        if pauses:
            pauses.clear()
            signal.raise_signal(signal.SIGSTOP)
        time.sleep(TICK_S)


if __name__ == "__main__":
    main()
