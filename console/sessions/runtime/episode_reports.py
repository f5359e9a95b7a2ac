"""What a runtime reports and uploads of its episodes, under its lease alone: a row each, their
documents in packs, parts of the archive, and the copy of its journal, which is a whole file and
after it what changed since, each an object of its own.
"""

from typing import Any

from django.db import transaction

from console.errors import Conflict
from console.object_store import client as object_store
from console.sessions.episodes.names import agent_mark, journal_files, pack_key, part_key
from console.sessions.episodes.text_blocks import blocks_extend
from console.sessions.models import ArchivePart, EpisodePack, EpisodeRecord, Session, Upload
from console.sessions.runtime.leases import lease_lock, upload_lock
from tinkerscript.wire.checkpoints import ManifestFile
from tinkerscript.wire.reading.trajectories import EpisodeRow, EpisodeRows
from tinkerscript.wire.runtime import JournalUpload, PackedEpisode

REPORTED = tuple(name for name in EpisodeRow.model_fields if name not in ("episode_id",))


def rows_save(*, session: Session, body: EpisodeRows) -> None:
    """Add rows or replace what was reported of the same episodes before. Raises StaleLease."""
    with transaction.atomic():
        lease_lock(session)
        if body.journal_last is not None:
            EpisodeRecord.objects.filter(session=session, seq__gt=body.journal_last).delete()
        records = [
            _record(session, row) for row in {row.episode_id: row for row in body.rows}.values()
        ]
        EpisodeRecord.objects.bulk_create(
            records,
            update_conflicts=True,
            unique_fields=["session", "episode_id"],
            update_fields=REPORTED,
        )
        blocks_extend(session, records)


def pack_commit(*, session: Session, upload: Upload) -> None:
    """The documents that ``upload`` wrote can be read from now on.

    A pack that no row refers to any more, because its episodes were packed again, is removed: they
    are once they were trained, and after a kill. Raises StaleLease, NotFound once a newer pack was
    committed.
    """
    assert upload.packed is not None, "the upload of a pack names its episodes"
    file = ManifestFile.model_validate(upload.files[0])
    places = {place.episode_id: place for place in map(PackedEpisode.model_validate, upload.packed)}
    with transaction.atomic():
        upload_lock(session, upload)
        pack, _ = EpisodePack.objects.get_or_create(
            session=session, sha256=file.sha256, defaults={"size_bytes": file.size_bytes}
        )
        known = EpisodeRecord.objects.filter(session=session, episode_id__in=places)
        records = list(known.only("id", "episode_id", "pack_id"))
        before = {each.pack_id for each in records if each.pack_id is not None} - {pack.id}
        EpisodePack.objects.filter(id__in=before).update(has_replaced=True)
        for record in records:
            place = places[record.episode_id]
            record.pack, record.pack_offset, record.pack_bytes = (
                pack,
                place.offset,
                place.size_bytes,
            )
        EpisodeRecord.objects.bulk_update(records, ["pack", "pack_offset", "pack_bytes"])
        session.uploads.filter(packed__isnull=False).exclude(id=upload.id).delete()
        unused = list(EpisodePack.objects.filter(session=session, episodes__isnull=True))
        EpisodePack.objects.filter(id__in=[pack.id for pack in unused]).delete()
    object_store.delete([pack_key(session, pack.sha256) for pack in unused])


def part_commit(*, session: Session, upload: Upload) -> None:
    """The part that ``upload`` wrote can be read from now on; it replaces one of its number.

    Raises StaleLease, NotFound once a newer part was committed.
    """
    assert upload.archive is not None, "the upload of a part names the part"
    file, number = ManifestFile.model_validate(upload.files[0]), upload.archive["part"]
    with transaction.atomic():
        upload_lock(session, upload)
        previous = session.archive_parts.filter(number=number).first()
        ArchivePart.objects.update_or_create(
            session=session,
            number=number,
            defaults={"episodes": upload.archive["episodes"], **file.model_dump()},
        )
        session.uploads.filter(archive__isnull=False).exclude(id=upload.id).delete()
    if previous and previous.sha256 != file.sha256:
        object_store.delete([part_key(session, previous.sha256)])


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
            journal={"files": files}, journal_bytes=sum(each["size_bytes"] for each in files)
        )
        others = session.uploads.filter(checkpoint=None, archive__isnull=True, packed__isnull=True)
        others.exclude(id=upload.id).delete()
    wanted = {each["key"] for each in files}
    before = [each["key"] for each in journal_files(row.journal)]
    object_store.delete([key for key in before if key not in wanted])


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


def _record(session: Session, row: EpisodeRow) -> EpisodeRecord:
    values: dict[str, Any] = row.model_dump(mode="json")
    return EpisodeRecord(
        session=session, **values | {"agents": "".join(map(agent_mark, row.agents))}
    )
