"""The store for a command that runs beside no server: the embedded one is started for it, and ended
after it.
"""

import contextlib
import logging
import subprocess
from collections.abc import Iterator

from django.conf import settings

from console.errors import Conflict
from console.object_store import client as object_store
from console.object_store import seaweedfs
from console.scheduling.children.supervisor import AlreadyRunning, die_with_parent, lock_take

log = logging.getLogger(__name__)

START_TIMEOUT_S, END_TIMEOUT_S = 120.0, 30.0


@contextlib.contextmanager
def store_available() -> Iterator[None]:
    """A store that takes objects, with its bucket: that of the settings, of `up` where it runs, or
    one of our own.

    Raises StorageUnavailable, DiskFull, and Conflict when the embedded one cannot be started.
    """
    if settings.S3_ENDPOINT_URL:
        object_store.ready_wait(timeout_s=START_TIMEOUT_S)
        yield
        return
    try:
        lock = lock_take(settings.DATA / "run")
    except AlreadyRunning:
        object_store.ready_wait(timeout_s=START_TIMEOUT_S)
        yield
        return
    with lock, _started():
        yield


@contextlib.contextmanager
def _started() -> Iterator[None]:
    (settings.DATA / "s3").mkdir(parents=True, exist_ok=True)
    with seaweedfs.log_path(settings.DATA).open("ab") as file:
        try:
            process = seaweedfs.start(settings.DATA, log=file.fileno(), preexec=die_with_parent)
        except seaweedfs.WeedMissing as error:
            raise Conflict(str(error)) from None
    try:
        object_store.ready_wait(
            timeout_s=START_TIMEOUT_S, stopped=lambda: process.poll() is not None
        )
        seaweedfs.guards_verify(settings.DATA, timeout_s=START_TIMEOUT_S)
        yield
    except seaweedfs.StoreUnguarded as error:
        raise Conflict(str(error)) from None
    finally:
        process.terminate()  # asked: what it was given is on the disk when it has ended
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            log.warning("the store did not end within %g s: it is killed", END_TIMEOUT_S)
            process.kill()
            process.wait(END_TIMEOUT_S)
