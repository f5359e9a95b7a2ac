"""``manage.py up``: everything on one machine, in one process group that Ctrl-C ends."""

import socket
import time
from contextlib import suppress
from functools import partial

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError, connections

from console.config.data_folder import compiled_prune, data_files_close
from console.config.full_disk import disk_full_of
from console.errors import DiskFull
from console.live.local_wakes import sockets_clear
from console.management.base import ServerCommand
from console.object_store import client as object_store
from console.object_store import links, seaweedfs
from console.object_store.free_space import FreeSpaceMonitor
from console.scheduling.children import supervisor
from console.scheduling.children.health import (
    PROBE_TIMEOUT_S,
    ended_within,
    reconciler_leads,
    server_responds,
)
from console.scheduling.children.supervisor import (
    Child,
    Interrupted,
    Signals,
    Supervisor,
    python_start,
    store_start,
)
from console.scheduling.instance import foreign_runtimes_forget, leases_revoke
from console.scheduling.launchers.choice import (
    OtherLauncher,
    launcher_get,
    launchers_elsewhere,
)
from console.scheduling.launchers.device_search import devices_find, gpus_unused
from console.scheduling.launchers.protocol import Launcher, LauncherUnavailable
from console.scheduling.reconcile import Reconciler
from console.server.lease_address import lease_listener, listen
from console.server.web_processes import url_responds, web_environment, web_names, web_responds
from console.sessions.limits.devices import devices_sync
from console.users.sealing import sealed_renew

READY_TIMEOUT_S = 120.0
GUARDS_TIMEOUT_S = 30.0
LOOK_EVERY_S = 0.5
START_LOOK_S = 0.2
START_PROBE_TIMEOUT_S = 0.5  # while starting: Ctrl-C is looked for in between
RUNTIME_GRACE_S = 15.0
# Of all runtimes together, with what the database records of their end; without a grace, once we
# are asked again.
RELEASE_S, FORCED_RELEASE_S = 25.0, 10.0


class Command(ServerCommand):
    help = (
        "Run the whole server on this machine: database, object store, web server, reconciler, "
        "runtimes."
    )

    def handle(self, **options: object) -> None:
        self._signals = Signals()
        self._has_tables = False
        self._free_space = FreeSpaceMonitor()
        self._listener: socket.socket | None = None
        self._web_listener: socket.socket | None = None
        self._web_names = ["web"]
        run = settings.DATA / "run"
        try:
            lock = supervisor.lock_take(run)
        except supervisor.AlreadyRunning as holder:
            raise CommandError(
                f"Another `manage.py up` (pid {holder}) serves {settings.DATA}. Stop it, or set "
                "TINKERSCRIPT_DATA."
            ) from None
        with lock:
            self._children = Supervisor(run)
            try:
                self._start()
                while not self._signals.asked:
                    self._children.restart_dead()
                    self._log_free_space()
                    self._signals.wait(LOOK_EVERY_S)
            except Interrupted:
                pass
            except (DatabaseError, OSError) as error:
                if full := disk_full_of(error):
                    raise CommandError(
                        f"The disk of {settings.DATA} or of the database is full. {full.hint}"
                    ) from None
                raise
            finally:
                self._stop()
                if self._listener is not None:  # it was open for as long as runtimes may ask
                    self._listener.close()

    def _start(self) -> None:
        self._children.clear_predecessors()
        # A migration waits for whoever else has the database; and engines and drivers are asked.
        with self._signals.interrupting():
            self._prepare()
        self._start_store()
        self._start_lease_process()
        self._start_web()
        with self._signals.interrupting():
            self._wait_for_store()
        through = (
            f", for clients through {settings.PUBLIC_URL}{links.PREFIX}"
            if links.is_served_here()
            else ""
        )
        self._say(f"store   {object_store.store_get().endpoint_url}{through}")
        for misfit in links.misfits_find():
            self._say(f"address {misfit}")
        self._log_free_space()
        self._children.start(
            Child(
                "reconcile",
                lambda: python_start("manage.py", "reconcile"),
                grace_s=15.0,
                probe=reconciler_leads,
            )
        )
        self._wait_for_web()
        self._say(f"ready {settings.PUBLIC_URL}")

    def _prepare(self) -> None:
        """What must be there before the first child."""
        _port_check()
        self._say(f"data    {settings.DATA}")
        data_files_close(settings.DATA)
        compiled_prune(settings.DATA)
        sockets_clear()
        call_command("migrate", interactive=False, verbosity=0)
        self._has_tables = True
        if suspended := foreign_runtimes_forget():
            self._say(
                "copy    runtimes of another server are left alone; suspended here: "
                f"{', '.join(suspended)}"
            )
        if settings.SECRET_KEY_FALLBACKS:
            sealed_renew()
        self._launchers_get()
        self._find_devices()

    def _start_lease_process(self) -> None:
        """Beside the web server, so that a stalled one costs no runtime its lease."""
        try:
            listener = lease_listener(on_lost=self._lease_port_lost)
        except OSError as error:
            raise CommandError(
                f"The lease process has no port ({error.strerror}): set TINKERSCRIPT_LEASE_PORT to "
                "a free one."
            ) from None
        if listener is None:
            return
        host, port = listener.getsockname()
        url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}/healthz"
        arguments = ("-m", "console.server.uvicorn", "--lease", "--fd", str(listener.fileno()))
        # The socket stays open here: while the process is started anew, requests wait in its
        # backlog.
        spawn = partial(python_start, *arguments, keep=(listener.fileno(),))
        self._listener = listener
        probe = partial(url_responds, url, timeout_s=PROBE_TIMEOUT_S)
        self._children.start(Child("lease", spawn, grace_s=5.0, probe=probe))

    def _lease_port_lost(self, port: int) -> None:
        """Another program has it, maybe another user's: no runtime that looks for us there keeps
        its lease.
        """
        revoked = leases_revoke()
        self._say(f"leases  another program has port {port}; runtimes that start anew: {revoked}")

    def _start_web(self) -> None:
        serve, names = ("-m", "console.server.uvicorn"), web_names()
        if len(names) == 1:
            self._children.start(
                Child("web", partial(python_start, *serve), grace_s=5.0, probe=server_responds)
            )
            return
        try:
            self._web_listener = listener = listen(settings.HOST, settings.PORT)
        except OSError as error:
            raise _port_refused(error) from None
        self._web_names, environment, number = names, web_environment(), listener.fileno()
        for name in names:
            spawn = partial(
                python_start,
                *serve,
                "--fd",
                str(number),
                "--worker",
                name,
                keep=(number,),
                more=environment,
            )
            probe = partial(web_responds, name, timeout_s=PROBE_TIMEOUT_S)
            self._children.start(Child(name, spawn, grace_s=5.0, probe=probe))

    def _find_devices(self) -> None:
        """Write down this machine's devices before anybody can ask for some."""
        try:
            devices = devices_find(settings.LAUNCHER)
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from None
        devices_sync(ids=devices)
        if devices:
            self._say(f"devices {', '.join(devices)}")
        elif unused := gpus_unused(settings.LAUNCHER):
            self._say(unused)

    def _start_store(self) -> None:
        if settings.S3_ENDPOINT_URL:
            return
        try:
            self._children.start(Child("store", store_start, grace_s=10.0))
        except seaweedfs.WeedMissing as error:
            raise CommandError(str(error)) from None

    def _wait_for_store(self) -> None:
        """Until it takes an object, be it the embedded one or the one that the settings name.

        One whose disk is nearly full can still be read: people can download and remove checkpoints.
        """
        with suppress(DiskFull):  # _log_free_space reports it
            object_store.ready_wait(timeout_s=READY_TIMEOUT_S)
        if not settings.S3_ENDPOINT_URL:
            try:
                seaweedfs.guards_verify(settings.DATA, timeout_s=GUARDS_TIMEOUT_S)
            except seaweedfs.StoreUnguarded as error:
                raise CommandError(str(error)) from None

    def _wait_for_web(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self._web_is_ready():
            self._children.restart_dead()
            if self._signals.asked:
                raise Interrupted
            if time.monotonic() > deadline:
                raise CommandError(
                    f"The web server did not answer within {READY_TIMEOUT_S:.0f} s; see its log "
                    "above."
                )
            self._signals.wait(START_LOOK_S)

    def _web_is_ready(self) -> bool:
        """Whether each web process responds. Several are asked on their own sockets: the shared one
        takes connections from the beginning, and lets them wait.
        """
        if self._web_listener is None:
            return server_responds(timeout_s=START_PROBE_TIMEOUT_S)
        return all(web_responds(name, timeout_s=START_PROBE_TIMEOUT_S) for name in self._web_names)

    def _stop(self) -> None:
        """Stop in this order: what takes requests and starts runtimes; runtimes; and last the store
        that they write to. Each has its deadline: together a minute, whatever hangs.
        """
        if self._web_listener is not None:
            # so that it closes with the last worker, and later connections are refused
            self._web_listener.close()
        self._children.stop(*self._web_names, "lease", "reconcile", force=self._force)
        connections.close_all()  # the thread that releases runtimes has its own
        if self._has_tables:
            self._release_runtimes()
        self._children.stop("store", force=self._force)

    def _launchers_get(self) -> tuple[Launcher, dict[str, Launcher]]:
        try:
            return launcher_get(), launchers_elsewhere()
        except (LauncherUnavailable, OtherLauncher) as error:
            raise CommandError(str(error)) from None

    def _release_runtimes(self) -> None:
        if not self._force() and ended_within(
            RELEASE_S, partial(self._release, RUNTIME_GRACE_S), stopped=self._force
        ):
            return
        # We were asked again, maybe meanwhile.
        if self._force() and ended_within(FORCED_RELEASE_S, partial(self._release, 0.0)):
            return
        self._say(
            "stop    not all runtimes and their sessions were released in time: the launcher or "
            "the database does not respond. The next start looks after them."
        )

    def _release(self, grace_s: float) -> None:
        try:
            launcher, elsewhere = self._launchers_get()
            Reconciler(launcher, elsewhere=elsewhere).release_all(grace_s=grace_s)
        except (CommandError, DatabaseError) as error:
            self._say(f"stop    runtimes are left as they are: {error}")
        finally:
            connections.close_all()

    def _log_free_space(self) -> None:
        if line := self._free_space.look():
            self._say(f"disk    {line}")

    def _force(self) -> bool:
        return self._signals.asked > 1

    def _say(self, line: str) -> None:
        with suppress(OSError):  # a log on a full disk: the line is lost, and nothing else
            self.stdout.write(line)
            self.stdout.flush()


def _port_check() -> None:
    if ":" in settings.HOST:
        raise CommandError(
            f"TINKERSCRIPT_HOST={settings.HOST} is an IPv6 address, on which `manage.py up` does "
            "not listen. Set an"
            " IPv4 address (0.0.0.0 for every one), and let a proxy in front listen on IPv6."
        )
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.HOST, settings.PORT))
        except OSError as error:
            raise _port_refused(error) from None


def _port_refused(error: OSError) -> CommandError:
    return CommandError(
        f"{settings.HOST}:{settings.PORT} cannot be listened on ({error.strerror}). "
        "Stop what uses it, or set TINKERSCRIPT_PORT."
    )
