"""A session that has ended, with episodes in every place where one is kept."""

import gzip
import json
from pathlib import Path

from django.conf import settings

from console.object_store import client as object_store
from console.sessions.episodes.models import EpisodeAnnotation
from console.sessions.episodes.names import journal_key, pack_key, part_key
from console.sessions.models import ArchivePart, EpisodePack, EpisodeRecord, Session, Upload
from console.users.models import Project, User, new_id
from gpu_runtime.archive.table import SCHEMA, part_write
from support import factories
from tinkerscript.wire.sessions import SessionState

SECRET = "what a person asked to be erased"


def ended_make(project: Project, person: User, tmp_path: Path) -> Session:
    """A stopped session with three episodes, each of which says so in every place where one is
    kept.
    """
    session = factories.session_make(project, state=SessionState.STOPPED)
    documents = {
        f"ep_{n}": gzip.compress(json.dumps({"said": f"{SECRET} {n}"}).encode()) for n in range(3)
    }
    object_store.put(pack_key(session, "a" * 64), b"".join(documents.values()))
    pack, offset = EpisodePack.objects.create(session=session, sha256="a" * 64, size_bytes=1), 0
    for number, (episode_id, document) in enumerate(documents.items()):
        EpisodeRecord.objects.create(
            session=session, episode_id=episode_id, seq=number, fate="trained", prompt=SECRET, begun_at=1.0, pack=pack,
            answer="only this episode said" if number == 1 else "",
            pack_offset=offset, pack_bytes=len(document),
        )  # fmt: skip
        EpisodeAnnotation.objects.create(
            session=session, episode_id=episode_id, person=person, comment=SECRET
        )
        offset += len(document)
    rows = [
        dict.fromkeys(SCHEMA.names) | {"episode_id": name, "metadata": SECRET} for name in documents
    ]
    for number, some in enumerate((rows[:2], rows[2:]), start=1):
        sha256, path = str(number) * 64, tmp_path / f"{number}.parquet"
        assert list(part_write(path, some, {"session_id": session.id}))
        object_store.upload(path, part_key(session, sha256))
        ArchivePart.objects.create(
            session=session,
            number=number,
            episodes=len(some),
            sha256=sha256,
            size_bytes=path.stat().st_size,
        )
    key = journal_key(session, "b" * 64)
    object_store.put(key, SECRET.encode())
    Session.objects.filter(id=session.id).update(journal={"files": [{"key": key}]})
    # The last upload of each kind that was committed keeps its row.
    upload_row(session, key)
    upload_row(session, part_key(session, "1" * 64), archive={"part": 1, "episodes": 2})
    upload_row(session, pack_key(session, "a" * 64), packed=[])
    folder = settings.DATA / "runtimes" / session.id
    folder.mkdir(parents=True)
    (folder / "journal.sqlite3").write_text(SECRET)
    return session


def upload_row(session: Session, *keys: str, **kind: object) -> None:
    Upload.objects.create(
        id=new_id("upl"), session=session, files=[{"key": key} for key in keys], **kind
    )
