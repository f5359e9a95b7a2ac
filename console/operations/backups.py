"""A whole server in one folder, and back: rows, objects, the secret that signs.

FOLDER/rows.jsonl.gz     every row, as Django's dumpdata writes it: any database can take it
FOLDER/objects/...       every object of the store under its key
FOLDER/secret_key        where the server made its own; one from the environment is not copied
FOLDER/audit_key         the same, for the audit log
FOLDER/backup.json       written last: a folder without it is no backup

A server may run meanwhile: rows are read in one transaction, and objects, which never change, after
them. A runtime's newest seconds are in its journal on its own disk; the copy in the store is as old
as the session's journal_interval_s.
"""

import contextlib
import json
import logging
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction

from console.catalogue.base_models import base_model_resolve
from console.errors import Conflict, DomainError, InvalidRequest
from console.object_store import client as object_store
from console.object_store import seaweedfs
from console.scheduling.children.supervisor import AlreadyRunning, die_with_parent, lock_take
from console.scheduling.instance import instance_renew
from console.sessions.models import Session
from console.sessions.states import ENDED
from console.users.models import User

log = logging.getLogger(__name__)

FORMAT = 1
ROWS, OBJECTS, MARK = "rows.jsonl.gz", "objects", "backup.json"
SECRETS = ("secret_key", "audit_key")
MADE_BY_MIGRATIONS = ("contenttypes", "auth.permission")
START_TIMEOUT_S, END_TIMEOUT_S = 120.0, 30.0


def backup_write(folder: Path) -> dict[str, int]:
    """Write a backup into ``folder``, which must be new or empty; how many rows and objects it has.

    Raises Conflict, StorageUnavailable, OSError.
    """
    if folder.exists() and any(folder.iterdir()):
        raise Conflict(f"{folder} is not empty.", hint="Give a new folder.")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        excluded = [argument for label in MADE_BY_MIGRATIONS for argument in ("--exclude", label)]
        call_command(
            "dumpdata",
            "--all",
            "--format",
            "jsonl",
            "--output",
            str(folder / ROWS),
            *excluded,
            verbosity=0,
        )
        sessions = Session.objects.count()
    objects = 0
    for key in object_store.keys_under(""):
        if key == object_store.HEALTH_KEY:
            continue
        path = folder / OBJECTS / key
        path.parent.mkdir(parents=True, exist_ok=True)
        objects += object_store.download(key, path)
    for name in SECRETS:
        if (settings.DATA / name).exists():
            shutil.copy(settings.DATA / name, folder / name)
    counts = {"sessions": sessions, "objects": objects}
    mark = {"format": FORMAT, "at": datetime.now(UTC).isoformat(), **counts}
    (folder / MARK).write_text(json.dumps(mark) + "\n")
    return counts


def backup_restore(folder: Path) -> dict[str, int]:
    """Become the server that ``folder`` is a backup of; how many sessions and objects came back.

    The database must hold no one and the store nothing yet. Nothing starts by itself, and nothing
    of the server that the backup is of is touched, which may run: sessions come back suspended, and
    go on from their last state when they are resumed. Raises InvalidRequest when the folder is no
    backup, Conflict when this server is not empty.
    """
    if (
        not (folder / MARK).exists()
        or json.loads((folder / MARK).read_text()).get("format") != FORMAT
    ):
        raise InvalidRequest(
            f"{folder} holds no whole backup of this format.", hint=f"It would have a {MARK}."
        )
    call_command("migrate", verbosity=0)
    if User.objects.exists() or next(object_store.keys_under("sessions/"), None):
        raise Conflict(
            "This server is not empty.",
            hint="Restore into a new TINKERSCRIPT_DATA (and database and bucket).",
        )
    objects = 0
    for path in sorted((folder / OBJECTS).rglob("*")):
        if path.is_file():
            object_store.upload(path, str(path.relative_to(folder / OBJECTS)))
            objects += 1
    with transaction.atomic():
        call_command("loaddata", str(folder / ROWS), verbosity=0)
        instance_renew()
        sessions = Session.objects.count()
    for name in SECRETS:
        if (folder / name).exists():
            shutil.copy(folder / name, settings.DATA / name)
    return {"sessions": sessions, "objects": objects}


def base_models_missing() -> list[str]:
    """The base models of sessions that could go on, as far as they are not on this machine."""
    missing = []
    for name in (
        Session.objects.exclude(state__in=ENDED)
        .order_by("base_model")
        .values_list("base_model", flat=True)
    ):
        try:
            base_model_resolve(name)
        except DomainError:
            missing.append(name)
    return list(dict.fromkeys(missing))


@contextlib.contextmanager
def store_available() -> Iterator[None]:
    """A store that takes objects, with its bucket: that of the settings, of `up` where it runs, or
    one of our own, which is ended afterwards.

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
