"""``manage.py up``: everything on one machine, in one process group that Ctrl-C ends."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from typing import IO

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from console.errors import DiskFull, StorageUnavailable
from console.scheduling import supervisor
from console.scheduling.launchers.choice import OtherLauncher, launcher_get
from console.scheduling.launchers.protocol import Launcher, LauncherAway
from console.scheduling.reconcile import Reconciler
from console.scheduling.supervisor import Child, Supervisor
from console.sessions import embedded_s3, storage
from console.sessions.store_room import RoomWatch
from console.users.sealing import sealed_renew

READY_TIMEOUT_S = 120.0
LOOK_EVERY_S = 0.2
RUNTIME_GRACE_S = 15.0


class Interrupted(Exception):
    """We were asked to end while starting."""


class Command(BaseCommand):
    help = "Run the whole server on this machine: database, object store, web server, reconciler, runtimes."
    requires_system_checks = []  # they import every view, which takes a second and concerns the web server alone

    def handle(self, **options: object) -> None:
        self._signals = 0
        self._has_tables = False
        self._room = RoomWatch()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        run = settings.DATA / "run"
        try:
            lock = supervisor.lock_take(run)
        except supervisor.AlreadyRunning as holder:
            raise CommandError(
                f"Another `manage.py up` (pid {holder}) serves {settings.DATA}. Stop it, or set TINKERSCRIPT_DATA."
            ) from None
        with lock:
            self._children = Supervisor(run)
            try:
                self._start()
                while not self._signals:
                    self._children.tend()
                    self._say_room()
                    time.sleep(LOOK_EVERY_S)
            except Interrupted:
                pass
            finally:
                self._stop()

    def _start(self) -> None:
        self._children.clear_predecessors()
        _port_check()
        self._say(f"data    {settings.DATA}")
        call_command("migrate", interactive=False, verbosity=0)
        self._has_tables = True
        if settings.SECRET_KEY_FALLBACKS:
            sealed_renew()
        self._launcher_get()
        self._start_store()
        self._children.start(Child("web", lambda: _python("-m", "console.serve"), grace_s=5.0))
        self._wait_for_store()
        self._say(f"store   {storage.store_get().endpoint_url}")
        self._say_room()
        self._children.start(Child("reconcile", lambda: _python("manage.py", "reconcile"), grace_s=15.0))
        self._wait_for_web()
        self._say(f"ready {settings.PUBLIC_URL}")

    def _start_store(self) -> None:
        if settings.S3_ENDPOINT_URL:
            return
        try:
            self._children.start(Child("store", _store, grace_s=10.0))
        except embedded_s3.WeedMissing as error:
            raise CommandError(str(error)) from None

    def _wait_for_store(self) -> None:
        """Until it takes an object, be it the embedded one or the one that the settings name.

        One whose disk is nearly full can still be read: people get at their checkpoints, and can make room.
        """
        try:
            storage.ready_wait(timeout_s=READY_TIMEOUT_S, stopped=lambda: self._signals > 0)
        except DiskFull:
            pass  # said by _say_room
        except StorageUnavailable as error:
            if self._signals:
                raise Interrupted from None
            raise CommandError(f"{error.message} {error.hint}") from None

    def _wait_for_web(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not _web_answers():
            self._children.tend()
            if self._signals:
                raise Interrupted
            if time.monotonic() > deadline:
                raise CommandError(f"The web server did not answer within {READY_TIMEOUT_S:.0f} s; see its log above.")
            time.sleep(LOOK_EVERY_S)

    def _stop(self) -> None:
        """Nobody is let in, nothing is launched, runtimes end, and last the store that they write to."""
        self._children.stop("web", hurry=self._hurry)
        self._children.stop("reconcile", hurry=self._hurry)
        if self._has_tables:
            self._release_runtimes()
        connections.close_all()
        self._children.stop("store", hurry=self._hurry)

    def _launcher_get(self) -> Launcher:
        try:
            return launcher_get()
        except (LauncherAway, OtherLauncher) as error:
            raise CommandError(str(error)) from None

    def _release_runtimes(self) -> None:
        try:
            launcher = self._launcher_get()
        except CommandError as error:
            self._say(f"runtimes are left as they are: {error}")
            return
        Reconciler(launcher).release_all(grace_s=0 if self._hurry() else RUNTIME_GRACE_S)

    def _say_room(self) -> None:
        if line := self._room.look():
            self._say(f"disk    {line}")

    def _hurry(self) -> bool:
        return self._signals > 1

    def _on_signal(self, *_: object) -> None:
        self._signals += 1

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _port_check() -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.HOST, settings.PORT))
        except OSError as error:
            raise CommandError(
                f"{settings.HOST}:{settings.PORT} cannot be listened on ({error.strerror}). "
                "Stop what uses it, or set TINKERSCRIPT_PORT."
            ) from None


def _web_answers() -> bool:
    try:
        with urllib.request.urlopen(f"{settings.INTERNAL_URL}/healthz", timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


def _python(*arguments: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(settings.BASE_DIR), str(settings.BASE_DIR / "sdk")])
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "TINKERSCRIPT_DATA": str(settings.DATA),  # a relative one would mean another folder to a child
        "PYTHONPATH": path,
        "PYTHONUNBUFFERED": "1",
    }
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=settings.BASE_DIR,
        env=environment,
        stdin=subprocess.DEVNULL,
        preexec_fn=supervisor.die_with_parent,
    )


def _store() -> subprocess.Popen[bytes]:
    log: IO[bytes]
    path = embedded_s3.log_path(settings.DATA)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as log:
        return embedded_s3.start(settings.DATA, log=log.fileno(), preexec=supervisor.die_with_parent)
