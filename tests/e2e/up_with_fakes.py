"""``manage.py up`` or ``manage.py reconcile`` as it is, but for the program that it launches as a
runtime.

Usage: ``up_with_fakes.py up``. Its reconciler is a child of its own, as that of ``up`` is, and runs
this file too.
"""

import sys
from pathlib import Path
from typing import Any

import django

RUNTIME = Path(__file__).with_name("storm_runtime.py")


def main() -> None:
    django.setup()
    from django.core.management import call_command

    from console.management.commands import reconcile, up
    from console.scheduling.launchers.process import ProcessLauncher

    reconcile.launcher_get = lambda: ProcessLauncher((sys.executable, str(RUNTIME)))
    python = up.python_start

    def with_our_reconciler(*arguments: str, **options: Any):
        ours = (__file__, "reconcile") if arguments == ("manage.py", "reconcile") else arguments
        return python(*ours, **options)

    up.python_start = with_our_reconciler
    call_command(sys.argv[1])


if __name__ == "__main__":
    main()
