"""``manage.py reconcile``: the loop that brings sessions to where they should be."""

import logging
import signal
import threading

from django.core.management.base import BaseCommand, CommandError
from django.db import close_old_connections

from console.scheduling.chores import Chores
from console.scheduling.launchers.choice import OtherLauncher, launcher_get
from console.scheduling.launchers.protocol import LauncherAway
from console.scheduling.reconcile import Reconciler

log = logging.getLogger(__name__)

TICK_S = 0.5


class Command(BaseCommand):
    help = "Start, watch, restart and end the runtimes of sessions. One leads; others stand by."
    requires_system_checks = []  # they import every view, which takes a second and concerns the web server alone

    def handle(self, **options: object) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        try:
            launcher = launcher_get()
        except (LauncherAway, OtherLauncher) as error:
            raise CommandError(str(error)) from None
        reconciler, chores = Reconciler(launcher), Chores()
        chores.start()
        while not stop.is_set():
            try:
                close_old_connections()
                reconciler.reconcile_once()
            except Exception:
                log.exception("a tick of the reconciler failed; the next one looks at everything anew")
            stop.wait(TICK_S)
        reconciler.close()
        chores.close()
