"""A whole server in one folder, and back: rows, objects, the secret that signs.

FOLDER/rows.jsonl.gz     every row, as Django's dumpdata writes it: any database can take it
FOLDER/objects/...       every object of the store under its key
FOLDER/secret_key        where the server made its own; one that comes from the environment stays with whoever set it
FOLDER/backup.json       written last: a folder without it is no backup

A server may run meanwhile: rows are read in one transaction, and objects, which never change, after them. A runtime's
newest seconds are in its journal on its own disk; the copy in the store is as old as the session's journal_interval_s.
"""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction

from console.errors import Conflict, InvalidRequest
from console.sessions import storage
from console.sessions.models import Session
from console.sessions.moves import WITH_RUNTIME
from console.users.models import User
from tinkerscript.wire.sessions import SessionState

FORMAT = 1
ROWS, OBJECTS, SECRET, MARK = "rows.jsonl.gz", "objects", "secret_key", "backup.json"
MADE_BY_MIGRATIONS = ("contenttypes", "auth.permission")


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
        call_command("dumpdata", "--all", "--format", "jsonl", "--output", str(folder / ROWS), *excluded, verbosity=0)
        sessions = Session.objects.count()
    objects = 0
    for key in storage.keys_under(""):
        path = folder / OBJECTS / key
        path.parent.mkdir(parents=True, exist_ok=True)
        objects += storage.download(key, path)
    secret = settings.DATA / SECRET
    if secret.exists():
        shutil.copy(secret, folder / SECRET)
    told = {"sessions": sessions, "objects": objects}
    mark = {"format": FORMAT, "at": datetime.now(UTC).isoformat(), **told}
    (folder / MARK).write_text(json.dumps(mark) + "\n")
    return told


def backup_restore(folder: Path) -> dict[str, int]:
    """Become the server that ``folder`` is a backup of; how many sessions and objects came back.

    The database must hold nobody and the store nothing yet. Sessions that ran wait in the queue again, and go on from
    their last state. Raises InvalidRequest when the folder is no backup, Conflict when this server is not empty.
    """
    if not (folder / MARK).exists() or json.loads((folder / MARK).read_text()).get("format") != FORMAT:
        raise InvalidRequest(f"{folder} holds no whole backup of this format.", hint=f"It would have a {MARK}.")
    call_command("migrate", verbosity=0)
    if User.objects.exists() or next(storage.keys_under("sessions/"), None):
        raise Conflict(
            "This server is not empty.", hint="Restore into a new TINKERSCRIPT_DATA (and database and bucket)."
        )
    objects = 0
    for path in sorted((folder / OBJECTS).rglob("*")):
        if path.is_file():
            storage.upload(path, str(path.relative_to(folder / OBJECTS)))
            objects += 1
    with transaction.atomic():
        call_command("loaddata", str(folder / ROWS), verbosity=0)
        _runtimes_forget()
        sessions = Session.objects.count()
    if (folder / SECRET).exists():
        shutil.copy(folder / SECRET, settings.DATA / SECRET)
    return {"sessions": sessions, "objects": objects}


def _runtimes_forget() -> None:
    """No runtime of the old server is ours: what ran waits again, what was to stop has."""
    gone = {"launch_handle": None, "lease_sha256": "", "lease_expires_at": None, "address": ""}
    Session.objects.filter(state=SessionState.STOPPING).update(state=SessionState.STOPPED, **gone)
    Session.objects.filter(state__in=WITH_RUNTIME).update(state=SessionState.QUEUED, **gone)
    Session.objects.update(**gone)
