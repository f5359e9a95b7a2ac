"""What a runtime reports of its episodes: a row each, and their documents in packs. Written under
its lease alone.
"""

from collections.abc import Iterable
from typing import Any

from django.db import transaction

from console.object_store import client as object_store
from console.sessions.episodes.names import agent_mark, pack_key
from console.sessions.episodes.text_blocks import blocks_extend
from console.sessions.models import EpisodePack, EpisodeRecord, Session, Upload
from console.sessions.runtime.leases import lease_lock, upload_lock
from tinkerscript.wire.checkpoints import ManifestFile
from tinkerscript.wire.reading.trajectories import EpisodeRow, EpisodeRows
from tinkerscript.wire.runtime import PackedEpisode

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
        Upload.objects.filter(session=session, packed__isnull=False).exclude(id=upload.id).delete()
        unused = list(EpisodePack.objects.filter(session=session, episodes__isnull=True))
        EpisodePack.objects.filter(id__in=[pack.id for pack in unused]).delete()
    object_store.delete([pack_key(session, pack.sha256) for pack in unused])


def _record(session: Session, row: EpisodeRow) -> EpisodeRecord:
    values: dict[str, Any] = row.model_dump(mode="json") | {"agents": _agents(row.agents)}
    return EpisodeRecord(session=session, **values)


def _agents(labels: Iterable[str]) -> str:
    return "".join(map(agent_mark, labels))
