"""Erasing the data of one episode: row, tokens, annotations, and every copy of them.

    pack and part without it -> rows that name those -> whatever no row names goes, journals too -> its own row goes

In that order an attempt that was cut off leaves the row, and the next attempt does all of it. Of a
session that runs, its runtime comes first (``gpu_runtime/trajectories/erasure.py``): the journal
and its copy go on without the episode.
"""

import hashlib
import tempfile
from pathlib import Path

from django.conf import settings
from django.db import connection, transaction
from django.db.models import QuerySet

from console.audit.services import audit_record
from console.errors import Conflict, StorageUnavailable
from console.live.services import event_note
from console.object_store import client as object_store
from console.sessions.episodes.models import EpisodeAnnotation
from console.sessions.episodes.names import journal_files, pack_key, part_key
from console.sessions.episodes.selectors import episode_get
from console.sessions.episodes.text_blocks import BLOCK, block_remake
from console.sessions.models import (
    ArchivePart,
    EpisodePack,
    EpisodeRecord,
    Removal,
    Session,
    Upload,
)
from console.sessions.runtime.session_turn import Turn, session_turn
from console.sessions.states import ENDED
from console.sessions.tasks.queue import task_errors_erase
from console.users.models import Project

FOLDERS = ("trajectories", "episodes", "journal")  # of the object store
LOCAL_COPIES = ("journal*", "archive/*", "trajectories/*")


def episode_erase(
    *,
    project: Project,
    session_id: str,
    episode_id: str,
    actor: str,
    key_id: str | None,
    request_id: str,
    by_runtime: bool = False,
) -> None:
    """Erase it, and write that into the audit log. Raises NotFound, Conflict while the session goes
    on.

    ``by_runtime``: its runtime has erased it already, and the copy of the journal has it no longer.
    Else the copies of the journal go whole: they hold all episodes, and nothing reads them after
    the session's end. Checkpoints stay: what was learned from an episode is in no file of its own.
    """
    record = episode_get(project=project, session_id=session_id, episode_id=episode_id)
    with session_turn(record.session_id) as turn:
        # Read again: an erasure that came before may have moved it into another pack.
        record = episode_get(project=project, session_id=session_id, episode_id=episode_id)
        if not by_runtime and (record.session.state not in ENDED or record.session.launch_handle):
            raise Conflict(
                f"The session is {record.session.state}: no runtime of it can erase the episode "
                "now.",
                hint="Erase it while the session is ready, or after it has stopped. Resume it, or "
                "stop it.",
                details={"state": record.session.state},
            )
        try:
            _erase(record, turn, by_runtime=by_runtime)
            _record(record, turn, actor=actor, key_id=key_id, request_id=request_id)
        finally:
            # what was written since its objects went
            if not Session.objects.filter(id=record.session_id).exists():
                Removal.objects.get_or_create(prefix=f"sessions/{record.session_id}/")
    # zeroed in the file; out of its log too
    if connection.vendor == "sqlite" and not connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _erase(record: EpisodeRecord, turn: Turn, *, by_runtime: bool) -> None:
    session, episode_id = record.session, record.episode_id
    replaced = [] if record.pack is None else [record.pack]
    # Where an earlier document of it may be: of before it was trained.
    earlier = EpisodePack.objects.filter(session=session, has_replaced=True)
    replaced += earlier.exclude(id__in=[pack.id for pack in replaced])
    for pack in replaced:
        turn.renew()
        _pack_rewrite(session, pack, record, turn)
    for part in session.archive_parts.order_by("number"):
        turn.renew()
        _part_rewrite(session, part, episode_id, turn)
    if not by_runtime:
        # No runtime is there that could commit an upload; what it sent of one may have the episode.
        uploads_drop(session)
        Session.objects.filter(id=session.id).update(journal=None, journal_bytes=0)
    turn.renew()
    gone = [pack for pack in replaced if not pack.episodes.exclude(id=record.id).exists()]
    _unnamed_remove(session, gone=gone)
    if not by_runtime:
        local_copies_remove(session)


def uploads_drop(session: Session) -> None:
    """Drop every upload of episodes that is under way: rows, and parts in the store."""
    _uploads(session).delete()
    for folder in FOLDERS:
        for key, upload_id, _ in list(object_store.multipart_list(folder_prefix(session, folder))):
            object_store.multipart_abort(key, upload_id)


def local_copies_remove(session: Session) -> None:
    """Remove what this machine keeps of the session's episodes."""
    for pattern in LOCAL_COPIES:
        for path in (settings.DATA / "runtimes" / session.id).glob(pattern):
            path.unlink(missing_ok=True)


def _record(
    record: EpisodeRecord, turn: Turn, *, actor: str, key_id: str | None, request_id: str
) -> None:
    """Take its rows away, and write down that it was erased."""
    session, episode_id = record.session, record.episode_id
    with transaction.atomic():
        turn.renew()
        EpisodeAnnotation.objects.filter(session=session, episode_id=episode_id).delete()
        task_errors_erase(session=session, task=record.task, episode_id=episode_id)
        record.delete()
        Session.objects.select_for_update(no_key=True).get(id=session.id)  # as who adds to a block
        block_remake(session, record.seq // BLOCK)
        EpisodePack.objects.filter(session=session, episodes__isnull=True).delete()
        event_note(session.id, "episode_erased", episode_id=episode_id)
        audit_record(
            project_id=session.project_id,
            actor=actor,
            key_id=key_id,
            action="episode_erase",
            target={"session_id": session.id, "episode_id": episode_id},
            request_id=request_id,
        )


def _pack_rewrite(session: Session, pack: EpisodePack, erased: EpisodeRecord, turn: Turn) -> None:
    """Put what rows of other episodes name in a pack into a new one. An earlier attempt may have
    done it.
    """
    others = list(
        EpisodeRecord.objects.filter(pack=pack).exclude(id=erased.id).order_by("pack_offset")
    )
    if not others:
        return
    whole = object_store.get(pack_key(session, pack.sha256)) or b""
    if max(record.pack_offset + record.pack_bytes for record in others) > len(whole):
        raise _not_there("pack of tokens")
    kept = bytearray()
    for record in others:
        document = whole[record.pack_offset : record.pack_offset + record.pack_bytes]
        record.pack_offset = len(kept)
        kept += document
    sha256 = hashlib.sha256(kept).hexdigest()
    object_store.put(pack_key(session, sha256), bytes(kept))
    with transaction.atomic():
        turn.renew()
        _upload_forget(session, pack_key(session, pack.sha256))
        fresh, _ = EpisodePack.objects.get_or_create(
            session=session, sha256=sha256, defaults={"size_bytes": len(kept)}
        )
        # One whose later document was committed meanwhile stays there.
        moved = [
            EpisodeRecord.objects.filter(id=record.id, pack=pack).update(
                pack=fresh, pack_offset=record.pack_offset
            )
            for record in others
        ]
        EpisodePack.objects.filter(id=fresh.id).update(has_replaced=not all(moved))


def _part_rewrite(session: Session, part: ArchivePart, episode_id: str, turn: Turn) -> None:
    """Put a part without the episode in the place of one that has it."""
    from pyarrow import compute
    from pyarrow.parquet import ParquetFile, ParquetWriter

    with tempfile.TemporaryDirectory(dir=settings.DATA) as folder:
        old, new = Path(folder) / "old", Path(folder) / "new"
        if not object_store.download(part_key(session, part.sha256), old):
            raise _not_there("part of the archive")
        with ParquetFile(old) as source:
            ids = source.read(columns=["episode_id"])["episode_id"].to_pylist()
            if episode_id not in ids:
                return
            with ParquetWriter(new, source.schema_arrow, compression="zstd") as writer:
                for group in range(source.num_row_groups):
                    rows = source.read_row_group(group)
                    writer.write_table(
                        rows.filter(compute.not_equal(rows["episode_id"], episode_id))
                    )
        with new.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        replaced = part_key(session, part.sha256)
        object_store.upload(new, part_key(session, sha256))
        part.sha256, part.size_bytes, part.episodes = (
            sha256,
            new.stat().st_size,
            len(ids) - ids.count(episode_id),
        )
        with transaction.atomic():
            turn.renew()
            _upload_forget(session, replaced)
            part.save(update_fields=["sha256", "size_bytes", "episodes"])


def _unnamed_remove(session: Session, *, gone: list[EpisodePack]) -> None:
    """Remove every object with episodes in it that no row names, and the packs ``gone``, whose rows
    go later.

    A runtime may commit uploads meanwhile. Objects are listed first, then uploads are read, then
    what they become: what is listed had the row of its upload before, and has that or the row of
    what it became.
    """
    listed = [
        key for folder in FOLDERS for key in object_store.keys_under(folder_prefix(session, folder))
    ]
    named = {
        file["key"] for files in _uploads(session).values_list("files", flat=True) for file in files
    }
    packs = EpisodePack.objects.filter(session=session).exclude(id__in=[pack.id for pack in gone])
    named |= {pack_key(session, sha256) for sha256 in packs.values_list("sha256", flat=True)}
    named |= {
        part_key(session, sha256)
        for sha256 in session.archive_parts.values_list("sha256", flat=True)
    }
    journal = Session.objects.values_list("journal", flat=True).get(id=session.id)
    named |= {file["key"] for file in journal_files(journal)}
    object_store.delete([key for key in listed if key not in named])


def _uploads(session: Session) -> QuerySet[Upload]:
    return session.uploads.filter(checkpoint=None)


def folder_prefix(session: Session, folder: str) -> str:
    """What every key of such a folder of the session begins with."""
    return f"sessions/{session.id}/{folder}/"


def _upload_forget(session: Session, key: str) -> None:
    """Take away the row of a committed upload whose object was replaced: it names it for ever, and
    may be sent again.

    Inside the transaction that replaces it. The session's row is locked, as a commit does: one that
    has begun comes before it, and a later one finds no upload.
    """
    Session.objects.select_for_update(no_key=True).get(id=session.id)
    for upload in _uploads(session):
        if any(file["key"] == key for file in upload.files):
            upload.delete()


def _not_there(what: str) -> StorageUnavailable:
    return StorageUnavailable(
        f"The object store has not the whole {what} that other episodes are in: the episode was "
        "not erased.",
        hint="Look at the store, and erase the episode again; where it is lost for good, delete "
        "the session.",
    )
