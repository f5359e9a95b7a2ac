"""The copy of a runtime's journal: a whole file, and after it what changed since, each an object of
its own.
"""

from django.db import transaction

from console.errors import Conflict
from console.object_store import client as object_store
from console.sessions.episodes.names import journal_files
from console.sessions.models import Session, Upload
from console.sessions.runtime.leases import upload_lock
from tinkerscript.wire.runtime import JournalUpload


def copy_check(*, session: Session, body: JournalUpload) -> None:
    """Raises Conflict for changes to another copy than the one that is there."""
    session.refresh_from_db(fields=["journal"])
    _kept(session, follows=body.follows, sha256=body.files[0].sha256)


def copy_commit(*, session: Session, upload: Upload) -> None:
    """What ``upload`` wrote is the copy from now on, with what it follows. Doing it again changes
    nothing.

    Raises Conflict as ``copy_check``, NotFound once a newer copy was committed, StaleLease.
    """
    file = upload.files[0]
    with transaction.atomic():
        row = upload_lock(session, upload)
        kept = _kept(row, follows=file.get("follows", []), sha256=file["sha256"])
        files = [*kept, {name: file[name] for name in ("path", "size_bytes", "sha256", "key")}]
        Session.objects.filter(id=session.id).update(
            journal={"files": files}, journal_bytes=_size_bytes(files)
        )
        others = Upload.objects.filter(
            session=session, checkpoint=None, archive__isnull=True, packed__isnull=True
        )
        others.exclude(id=upload.id).delete()
    wanted = {each["key"] for each in files}
    if replaced := [
        each["key"] for each in journal_files(row.journal) if each["key"] not in wanted
    ]:
        object_store.delete(replaced)


def _size_bytes(files: list[dict]) -> int:
    return sum(file["size_bytes"] for file in files)


def _kept(session: Session, *, follows: list[str], sha256: str) -> list[dict]:
    """The files that stay before the new one, which may stand there already: an earlier try was
    committed.
    """
    if not follows:
        return []
    there = journal_files(session.journal)
    hashes = [file["sha256"] for file in there]
    if hashes not in (follows, [*follows, sha256]):
        raise Conflict(
            "The journal's copy is not the one that these changes follow.",
            hint="Send a whole copy.",
        )
    return there[: len(follows)]
