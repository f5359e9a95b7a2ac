"""An episode is erased on request: row, tokens, annotations, archive, and every copy of the
journal.
"""

import gzip
import json
import os
from pathlib import Path

import pyarrow.parquet
import pytest
from aiohttp import web
from asgiref.sync import sync_to_async
from django.test import Client
from django.utils import timezone

from console.asgi import application
from console.audit.models import AuditRecord
from console.errors import SessionNotReady, StorageUnavailable
from console.object_store import client as object_store
from console.sessions.checkpoints.removal import removals_finish
from console.sessions.episodes.documents import document_read
from console.sessions.episodes.models import EpisodeAnnotation
from console.sessions.episodes.names import journal_key, pack_key, part_key
from console.sessions.models import (
    ArchivePart,
    EpisodePack,
    EpisodeRecord,
    Session,
)
from console.sessions.runtime import episode_erasure
from console.sessions.runtime.session_turn import SessionTurn, Turn, session_turn
from console.sessions.services import session_delete
from console.sessions.tasks.models import QueuedTask
from support import factories
from support.asgi_calls import Call
from support.kept_episodes import SECRET, ended_make, upload_row
from tinkerscript.wire.sessions import SessionState


@pytest.fixture
def owner(alice) -> Client:
    client = Client()
    client.force_login(alice)
    return client


@pytest.fixture
def ended(project, alice, any_store, tmp_path: Path) -> Session:
    return ended_make(project, alice, tmp_path)


def erase(client: Client, session: Session, episode_id: str):
    return client.delete(f"/v1/sessions/{session.id}/episodes/{episode_id}")


def entries() -> list[AuditRecord]:
    return list(AuditRecord.objects.filter(content__contains='"episode_erase"'))


def away(*_: object, **__: object) -> None:
    raise StorageUnavailable("The store is away.")


def archived(session: Session, folder: Path) -> dict[int, list[str]]:
    found = {}
    for part in session.archive_parts.order_by("number"):
        assert object_store.download(part_key(session, part.sha256), folder / "part")
        table = pyarrow.parquet.read_table(folder / "part")
        assert table.schema.metadata[b"session_id"] == session.id.encode()
        found[part.number] = table["episode_id"].to_pylist()
        assert (
            part.episodes == len(found[part.number])
            and part.size_bytes == (folder / "part").stat().st_size
        )
    return found


@pytest.mark.smoke
def test_an_episode_is_erased_everywhere_and_the_others_are_as_they_were(
    owner, ended, tmp_path, settings
) -> None:
    # of a runtime that was killed: its parts may have the episode
    unfinished = journal_key(ended, "c" * 64)
    upload_row(ended, unfinished)
    object_store.multipart_open(unfinished)
    assert erase(owner, ended, "ep_1").status_code == 204
    assert not list(object_store.multipart_list(f"sessions/{ended.id}/"))
    left = list(EpisodeRecord.objects.filter(session=ended).order_by("seq"))
    assert [(record.episode_id, document_read(record)["said"]) for record in left] == [
        ("ep_0", f"{SECRET} 0"), ("ep_2", f"{SECRET} 2"),
    ]  # fmt: skip
    assert set(EpisodeAnnotation.objects.values_list("episode_id", flat=True)) == {"ep_0", "ep_2"}
    assert archived(ended, tmp_path) == {1: ["ep_0"], 2: ["ep_2"]}
    ended.refresh_from_db()
    stored = set(object_store.keys_under(f"sessions/{ended.id}/"))
    packs = {pack_key(ended, pack.sha256) for pack in EpisodePack.objects.all()}
    assert (
        stored == packs | {part_key(ended, part.sha256) for part in ended.archive_parts.all()}
        and len(packs) == 1
    )
    assert ended.journal is None and list((settings.DATA / "runtimes" / ended.id).iterdir()) == []
    (entry,) = entries()
    assert SECRET not in entry.content and json.loads(entry.content)["target"] == {
        "session_id": ended.id,
        "episode_id": "ep_1",
    }
    assert erase(owner, ended, "ep_1").status_code == 404


def test_a_public_link_shows_neither_an_erased_episode_nor_a_deleted_session(
    owner, ended, client_for
) -> None:
    path = f"/v1/sessions/{ended.id}"
    made = owner.post(f"{path}/shares", {"expires_in_days": 1}, content_type="application/json")
    reader = client_for(made.json()["url"].partition("#")[2])

    def shown() -> set[str]:
        return {item["episode_id"] for item in reader.get("/v1/shared/episodes").json()["items"]}

    assert shown() == {"ep_0", "ep_1", "ep_2"}
    assert erase(owner, ended, "ep_1").status_code == 204
    assert shown() == {"ep_0", "ep_2"}
    assert reader.get("/v1/shared/episodes/ep_1/timelines").status_code == 404
    assert "only this episode said" not in reader.get("/v1/shared/episodes").content.decode()
    session_delete(project=ended.project, session_id=ended.id)
    assert (
        reader.get("/v1/shared").status_code == reader.get("/v1/shared/episodes").status_code == 401
    )


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_an_earlier_document_of_before_the_episode_was_trained_goes_too(
    owner, ended, monkeypatch, is_cut_off
) -> None:
    """ep_1 was trained and stored again: the pack that it was in is there still, for the others."""
    later = gzip.compress(json.dumps({"said": f"{SECRET} 1, trained"}).encode())
    object_store.put(pack_key(ended, "d" * 64), later)
    fresh = EpisodePack.objects.create(session=ended, sha256="d" * 64, size_bytes=len(later))
    EpisodeRecord.objects.filter(episode_id="ep_1").update(
        pack=fresh, pack_offset=0, pack_bytes=len(later)
    )
    EpisodePack.objects.exclude(id=fresh.id).update(has_replaced=True)
    if is_cut_off:
        with monkeypatch.context() as cut:
            cut.setattr(episode_erasure, "_unnamed_remove", away)
            assert erase(owner, ended, "ep_1").status_code == 503
    assert erase(owner, ended, "ep_1").status_code == 204
    kept = [
        object_store.get(key) or b""
        for key in object_store.keys_under(f"sessions/{ended.id}/trajectories/")
    ]
    documents = [
        gzip.compress(json.dumps({"said": f"{SECRET} {n}"}).encode(), mtime=0) for n in (0, 2)
    ]
    assert len(kept) == 1 and len(kept[0]) == sum(map(len, documents))
    said = [document_read(record)["said"] for record in EpisodeRecord.objects.order_by("seq")]
    assert said == [f"{SECRET} 0", f"{SECRET} 2"]
    assert [pack.has_replaced for pack in EpisodePack.objects.all()] == [False]


def test_an_attempt_that_was_cut_off_is_completed_by_the_next(
    owner, ended, tmp_path, monkeypatch
) -> None:
    with monkeypatch.context() as cut:
        cut.setattr(episode_erasure.object_store, "delete", away)
        assert erase(owner, ended, "ep_1").status_code == 503
    assert EpisodeRecord.objects.filter(episode_id="ep_1").exists()
    assert entries() == []
    assert erase(owner, ended, "ep_1").status_code == 204
    assert len(list(object_store.keys_under(f"sessions/{ended.id}/"))) == 3
    assert archived(ended, tmp_path) == {1: ["ep_0"], 2: ["ep_2"]}


def test_the_only_episode_of_a_pack_takes_it_along(owner, ended) -> None:
    EpisodeRecord.objects.exclude(episode_id="ep_0").delete()
    assert erase(owner, ended, "ep_0").status_code == 204
    assert not EpisodePack.objects.exists()
    assert not list(object_store.keys_under(f"sessions/{ended.id}/trajectories/"))


def test_one_of_a_session_that_goes_on_is_refused(owner, ended) -> None:
    Session.objects.filter(id=ended.id).update(state=SessionState.SUSPENDED)
    answer = erase(owner, ended, "ep_1")
    assert answer.status_code == 409 and "Resume it, or stop it" in answer.json()["error"]["hint"]
    assert EpisodeRecord.objects.filter(episode_id="ep_1").exists()


@pytest.mark.django_db(transaction=True)
async def test_one_of_a_running_session_is_erased_by_its_runtime_first(
    ended, gateway, api_key, settings
) -> None:
    """What its gateway refuses is refused; then every object goes that has it, and the journal's
    copy stays.
    """
    live = {
        "state": SessionState.READY,
        "address": gateway.address,
        "launch_handle": {"launch": "test"},
    }
    await Session.objects.filter(id=ended.id).aupdate(**live)
    path = f"/v1/sessions/{ended.id}/episodes/ep_1"

    async def answer(request: web.Request) -> web.Response:
        return (
            web.json_response({"error": {"code": "conflict"}}, status=409)
            if refuses
            else web.Response(status=204)
        )

    refuses, gateway.answer = True, answer
    assert (await Call(application, "DELETE", path, key=api_key).answer())[0] == 409
    assert await EpisodeRecord.objects.filter(episode_id="ep_1").aexists()
    refuses = False
    status, _, body = await Call(application, "DELETE", path, key=api_key).answer()
    assert (status, body) == (204, b"")
    assert [(request.method, request.path) for request, _ in gateway.requests] == [
        ("DELETE", "/episodes/ep_1")
    ] * 2
    keys = await sync_to_async(lambda: list(object_store.keys_under(f"sessions/{ended.id}/")))()
    journal = journal_key(ended, "b" * 64)  # without the episode: its runtime stored it anew
    assert journal in keys and len(keys) == 1 + 1 + 2
    stored = [await sync_to_async(object_store.get)(key) for key in keys if key != journal]
    assert not [whole for whole in stored if f"{SECRET} 1".encode() in whole]
    assert not await EpisodeRecord.objects.filter(episode_id="ep_1").aexists()
    database = settings.DATABASES["default"]
    if "sqlite" in database["ENGINE"]:
        files = list(Path(database["NAME"]).parent.glob(f"{Path(database['NAME']).name}*"))
        assert files and not [
            file.name for file in files if b"only this episode said" in _bytes_of(file)
        ]


def _bytes_of(file: Path) -> bytes:
    """A file of SQLite, read without a close: that would end the locks which this process has on it
    (POSIX). A server of a later test would then delete the log under our connections."""
    return os.pread(os.open(file, os.O_RDONLY), file.stat().st_size, 0)


def test_what_a_runtime_commits_beside_an_erasure_stays(owner, ended, project, monkeypatch) -> None:
    """Each kind before its folder is listed and again after it; an upload that is not committed yet
    stays too.
    """
    kept = set()

    def commit(kind: str) -> None:
        number, sha256 = 9 + len(kept), f"{len(kept) + 3}" * 64
        if kind == "trajectories":
            key, pack = (
                pack_key(ended, sha256),
                EpisodePack.objects.create(session=ended, sha256=sha256, size_bytes=1),
            )
            EpisodeRecord.objects.create(
                session=ended, episode_id=f"late{number}", seq=number, begun_at=1.0, pack=pack
            )
        elif kind == "episodes":
            key = part_key(ended, sha256)
            ArchivePart.objects.create(
                session=ended, number=number, episodes=1, sha256=sha256, size_bytes=1
            )
        else:
            key = journal_key(ended, sha256)
            there = Session.objects.get(id=ended.id).journal["files"]
            Session.objects.filter(id=ended.id).update(journal={"files": [*there, {"key": key}]})
        object_store.put(key, b"x")
        kept.add(key)

    def listed(prefix: str):
        kind = prefix.split("/")[-2]
        commit(kind)
        yield from keys_under(prefix)
        commit(kind)

    keys_under, under_way = object_store.keys_under, journal_key(ended, "f" * 64)
    object_store.put(under_way, b"x")
    upload_row(ended, under_way)
    with monkeypatch.context() as patched:
        patched.setattr(episode_erasure.object_store, "keys_under", listed)
        episode_erasure.episode_erase(
            project=project, session_id=ended.id, episode_id="ep_1", actor="alice", key_id=None, request_id="",
            by_runtime=True,
        )  # fmt: skip
    stored = set(object_store.keys_under(f"sessions/{ended.id}/"))
    assert len(kept) == 6 and stored >= kept | {under_way}
    assert not stored & {part_key(ended, "1" * 64), pack_key(ended, "a" * 64)}


def test_one_erasure_at_a_time_of_a_session_and_the_next_is_told_to_come_back(
    owner, ended, project
) -> None:
    """The second one would take the first one's new pack, which has no row yet, for one that no row
    names.
    """
    other = factories.session_make(project)
    with session_turn(ended.id), session_turn(other.id):
        refused = erase(owner, ended, "ep_1")
        assert refused.status_code == 503 and refused["Retry-After"] == "2"
        assert "Another episode" in refused.json()["error"]["message"]
    assert erase(owner, ended, "ep_1").status_code == 204
    assert not SessionTurn.objects.exists()


def test_who_was_killed_in_turn_is_followed_after_its_time(owner, ended) -> None:
    killed = Turn(ended.id)
    killed.take()
    SessionTurn.objects.update(expires_at=timezone.now())
    assert erase(owner, ended, "ep_1").status_code == 204
    with pytest.raises(SessionNotReady):
        killed.renew()


def test_an_erasure_that_lost_its_turn_writes_no_row(owner, ended, monkeypatch) -> None:
    upload = object_store.upload

    def slow(path, key):
        upload(path, key)
        SessionTurn.objects.update(holder="another")

    with monkeypatch.context() as patched:
        patched.setattr(object_store, "upload", slow)
        assert erase(owner, ended, "ep_1").status_code == 503
    assert ended.archive_parts.get(number=1).sha256 == "1" * 64
    assert EpisodeRecord.objects.filter(episode_id="ep_1").exists() and entries() == []
    assert SessionTurn.objects.get().holder == "another", (
        "nor ends the turn of the one who has it now"
    )


def test_an_erasure_leaves_nothing_of_a_session_that_is_deleted_meanwhile(
    owner, ended, project, monkeypatch
) -> None:
    upload = object_store.upload

    def late(path, key):
        session_delete(project=project, session_id=ended.id)
        removals_finish()
        upload(path, key)

    with monkeypatch.context() as patched:
        patched.setattr(object_store, "upload", late)
        assert erase(owner, ended, "ep_1").status_code == 503
    removals_finish()
    assert not list(object_store.keys_under(f"sessions/{ended.id}/"))


def test_an_object_that_is_away_is_not_taken_for_an_empty_one(owner, ended) -> None:
    def places() -> list[tuple]:
        return list(
            EpisodeRecord.objects.order_by("seq").values_list(
                "episode_id", "pack__sha256", "pack_offset"
            )
        )

    before, pack, part = places(), pack_key(ended, "a" * 64), part_key(ended, "1" * 64)
    whole, rows = object_store.get(pack), object_store.get(part)
    for cut in (None, whole[:-1]):
        object_store.delete([pack])
        if cut is not None:
            object_store.put(pack, cut)
        refused = erase(owner, ended, "ep_1")
        assert refused.status_code == 503 and "was not erased" in refused.json()["error"]["message"]
        assert places() == before
    object_store.put(pack, whole)
    object_store.delete([part])
    assert erase(owner, ended, "ep_1").status_code == 503 and entries() == []
    object_store.put(part, rows)
    assert erase(owner, ended, "ep_1").status_code == 204
    left = EpisodeRecord.objects.filter(session=ended).order_by("seq")
    assert [document_read(record)["said"] for record in left] == [f"{SECRET} 0", f"{SECRET} 2"]


@pytest.mark.parametrize("judged", [False, True])
def test_what_failed_attempts_at_its_task_said_goes_with_it(owner, ended, judged) -> None:
    EpisodeRecord.objects.filter(episode_id="ep_1").update(
        task="its #0a1b2c3d" if judged else "its"
    )
    for name, state, episode_id in (
        ("its", "failed", "ep_1"), ("its", "waiting", None), ("its", "failed", "ep_0"), ("other", "waiting", None)
    ):  # fmt: skip
        QueuedTask.objects.create(
            session=ended, name=name, row=1, tries=2, state=state, episode_id=episode_id, error=SECRET, judged=judged,
            outputs=[{"reward": 1.0, "metadata": {"judge": SECRET}}], episode_ids=[episode_id or "ep_2"],
        )  # fmt: skip
    assert erase(owner, ended, "ep_1").status_code == 204
    left = QueuedTask.objects.order_by("id")
    errors = (
        ["An episode of it was erased.", "", "", SECRET] if judged else ["", "", SECRET, SECRET]
    )
    assert list(left.values_list("error", flat=True)) == errors
    if judged:
        assert [row.outputs is None for row in left] == [True, False, False, False], (
            "its own group's alone"
        )


def test_an_erased_episode_is_in_no_list_of_documents(owner: Client, ended: Session) -> None:
    def listed() -> list[dict]:
        items, cursor = [], -1
        while cursor is not None:
            page = owner.get(
                f"/v1/sessions/{ended.id}/episodes/documents?limit=1&cursor={cursor}"
            ).json()
            assert [file["path"] for file in page["files"]] == [
                item["file"] for item in page["items"]
            ]
            items, cursor = items + page["items"], page["next_cursor"]
        return items

    assert [item["episode_id"] for item in listed()] == ["ep_0", "ep_1", "ep_2"]
    assert erase(owner, ended, "ep_1").status_code == 204
    for item in listed():
        packed = object_store.get_range(
            pack_key(ended, item["file"]),
            offset=item["offset_bytes"],
            size_bytes=item["size_bytes"],
        )
        assert json.loads(gzip.decompress(packed))["said"] == f"{SECRET} {item['episode_id'][-1]}"
    assert [item["episode_id"] for item in listed()] == ["ep_0", "ep_2"]
