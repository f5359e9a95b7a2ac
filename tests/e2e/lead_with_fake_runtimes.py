"""A reconciler that launches ``fake_runtime.py``. Started before ``manage.py up``, it leads; the server's stands by."""

import sys
import time
from pathlib import Path

import django

TICK_S = 0.1


def main() -> None:
    django.setup()
    from console.scheduling.launchers.process import ProcessLauncher
    from console.scheduling.reconcile import Reconciler

    reconciler = Reconciler(ProcessLauncher((sys.executable, str(Path(__file__).with_name("fake_runtime.py")))))
    while not reconciler.reconcile_once():
        time.sleep(TICK_S)
    print("leading", flush=True)
    while True:
        reconciler.reconcile_once()
        time.sleep(TICK_S)


if __name__ == "__main__":
    main()
