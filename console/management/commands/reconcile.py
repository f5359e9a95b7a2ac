"""``manage.py reconcile``: the loop that brings sessions to where they should be."""

import logging
import signal
import time

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import close_old_connections

from console.live.local_wakes import LAYER_IS_SHARED, RECONCILERS, Pause
from console.management.base import ServerCommand
from console.scheduling.instance import foreign_runtimes_forget
from console.scheduling.launchers.choice import (
    OtherLauncher,
    launcher_get,
    launchers_elsewhere,
    warm_get,
)
from console.scheduling.launchers.device_search import devices_find
from console.scheduling.launchers.protocol import LauncherUnavailable
from console.scheduling.periodic_tasks import PeriodicTasks
from console.scheduling.reconcile import IDLE_S, Reconciler

log = logging.getLogger(__name__)

TICK_S = 0.5
# the least pause, of one that is woken; as long as the tick before took where that is longer
WOKEN_S = 0.02


class Command(ServerCommand):
    help = "Start, watch, restart and end the runtimes of sessions. One leads; others stand by."

    def handle(self, **options: object) -> None:
        pause = Pause(RECONCILERS)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: pause.end())
        try:
            launcher, devices = launcher_get(), devices_find(settings.LAUNCHER)
            elsewhere = launchers_elsewhere()
        except (LauncherUnavailable, OtherLauncher, ImproperlyConfigured) as error:
            raise CommandError(str(error)) from None
        if suspended := foreign_runtimes_forget():
            log.warning(
                "this server is a copy: runtimes of %s are another server's and are left alone",
                suspended,
            )
        reconciler = Reconciler(
            launcher, elsewhere=elsewhere, devices=devices, warm=warm_get(launcher)
        )
        tasks = PeriodicTasks(is_idle=lambda: reconciler.is_idle)
        tasks.start()
        while not pause.is_over:
            began = time.monotonic()
            try:
                close_old_connections()
                if reconciler.is_due():
                    reconciler.reconcile_once()
            except Exception:
                log.exception(
                    "a tick of the reconciler failed; the next one looks at everything anew"
                )
            # Without Redis whatever queues a session wakes this process; with it nothing does.
            most_s = IDLE_S if reconciler.is_idle and not LAYER_IS_SHARED else TICK_S
            pause.wait(min(TICK_S, max(WOKEN_S, time.monotonic() - began)), most_s)
        reconciler.close()
        tasks.close()
        pause.close()
