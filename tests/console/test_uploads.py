"""Checkpoints and journals against object stores: all or nothing, by presigned URL, under the lease
of now.
"""

import hashlib
import json
import urllib.error

import pytest
from django.utils import timezone
from pydantic import ValidationError

from console.errors import Conflict, InvalidRequest, NotFound, StaleLease, StorageUnavailable
from console.live.models import EventRecord
from console.object_store import client as object_store
from console.object_store import free_space, seaweedfs
from console.object_store.client import parts_written
from console.scheduling.processes import wait_until
from console.sessions.checkpoints import checkpoints, removal, verification
from console.sessions.episodes.names import journal_files, pack_key, part_key
from console.sessions.models import EpisodePack, EpisodeRecord, Session, Upload
from console.sessions.runtime import leases, uploads
from console.sessions.runtime.episode_reports import copy_commit, pack_commit, part_commit
from support import factories
from support.real_stores import real_stores
from support.store_calls import fetch, opening, put, write
from tinkerscript.wire.checkpoints import Manifest, ManifestFile
from tinkerscript.wire.runtime import CheckpointUpload, UploadCommit, UploadedFile

FILES = {
    "config.json": b'{"a": 1}',
    "model.safetensors": b"weights" * 1000,
    "tokenizer/vocab.txt": b"",
    "x": b"1",
}


@pytest.fixture
def running(project, s3):
    """A session with a runtime: the row as the runtime's lease opens it."""
    _session, token = factories.runtime_make(project)
    return leases.lease_check(token=token)


def test_an_ordered_checkpoint_is_written_committed_and_read_back(project, running):
    wanted = checkpoints.checkpoint_request(project=project, session_id=running.id, kind="model")
    plan = uploads.upload_open(session=running, body=opening(FILES, checkpoint_id=wanted.id))
    assert plan.checkpoint_id == wanted.id
    answer = uploads.upload_commit(
        session=running, upload_id=plan.upload_id, body=write(plan, FILES)
    )
    assert answer.checkpoint_id == wanted.id
    download = checkpoints.checkpoint_download(
        project=project, session_id=running.id, checkpoint_id=wanted.id
    )
    assert {file.path: fetch(file.url) for file in download.files} == FILES
    weights = next(file for file in download.files if file.path == "model.safetensors")
    assert fetch(weights.url, {"Range": "bytes=7-13"}) == b"weights"
    assert download.step == 7 and 0 < (download.expires_at - timezone.now()).total_seconds() <= 900
    manifest = Manifest.model_validate_json(
        object_store.get(f"sessions/{running.id}/checkpoints/{wanted.id}/manifest.json")
    )
    assert [file.model_dump() for file in manifest.files] == [
        file.model_dump() for file in opening(FILES).files
    ]
    event = EventRecord.objects.filter(
        session_id=running.id, data__name="checkpoint_committed"
    ).get()
    assert (event.data["checkpoint_id"], event.data["step"]) == (wanted.id, 7)
    assert event.data["size_bytes"] == sum(map(len, FILES.values()))


def test_a_half_written_checkpoint_is_invisible(project, running):
    plan = uploads.upload_open(session=running, body=opening(FILES))
    commit = write(plan, {**FILES})
    for path in [*FILES, "manifest.json"]:
        assert (
            object_store.size_bytes(
                f"sessions/{running.id}/checkpoints/{plan.checkpoint_id}/{path}"
            )
            is None
        )
    with pytest.raises(Conflict, match="uploading"):
        checkpoints.checkpoint_download(
            project=project, session_id=running.id, checkpoint_id=plan.checkpoint_id
        )
    assert checkpoints.checkpoint_resume_get(session_id=running.id) is None
    uploads.upload_commit(session=running, upload_id=plan.upload_id, body=commit)


def test_the_manifest_is_written_last(running, monkeypatch):
    order, states = [], []
    complete, put_object = object_store.multipart_complete, object_store.put
    monkeypatch.setattr(
        object_store, "multipart_complete", lambda key, *a: order.append(key) or complete(key, *a)
    )

    def put_seen(key, body):
        order.append(key)
        states.append(running.checkpoints.get().state)
        put_object(key, body)

    monkeypatch.setattr(object_store, "put", put_seen)
    plan = uploads.upload_open(session=running, body=opening(FILES))
    uploads.upload_commit(session=running, upload_id=plan.upload_id, body=write(plan, FILES))
    assert order[-1].endswith("/manifest.json") and len(order) == len(FILES) + 1
    assert states == ["uploading"]  # no reader is told of a checkpoint whose manifest is not there
    assert running.checkpoints.get().state == "committed"


def test_a_commit_sent_twice_changes_nothing(running):
    plan = uploads.upload_open(session=running, body=opening(FILES))
    commit = write(plan, FILES)
    answers = [
        uploads.upload_commit(session=running, upload_id=plan.upload_id, body=commit)
        for _ in range(2)
    ]
    assert answers[0] == answers[1]
    assert (
        EventRecord.objects.filter(session_id=running.id, data__name="checkpoint_committed").count()
        == 1
    )


def test_a_commit_that_broke_off_can_be_finished(running, monkeypatch):
    plan = uploads.upload_open(session=running, body=opening(FILES))
    commit = write(plan, FILES)
    with monkeypatch.context() as patch:
        patch.setattr(
            object_store, "put", lambda *_: (_ for _ in ()).throw(StorageUnavailable("gone"))
        )
        with pytest.raises(StorageUnavailable):
            uploads.upload_commit(session=running, upload_id=plan.upload_id, body=commit)
    assert running.checkpoints.get().state == "uploading"
    uploads.upload_commit(session=running, upload_id=plan.upload_id, body=commit)
    assert running.checkpoints.get().state == "committed"


def test_a_file_of_several_parts_is_put_together_in_order(running, monkeypatch):
    monkeypatch.setattr(uploads, "PART_SIZE_BYTES", 5 << 20)
    data = bytes(range(256)) * 4 * 1024 * 11  # 11 MiB
    plan = uploads.upload_open(session=running, body=opening({"big": data}))
    assert len(plan.files[0].part_urls) == 3 and plan.files[0].upload_id
    commit = write(plan, {"big": data})
    one_short = UploadCommit(files=[UploadedFile(path="big", etags=commit.files[0].etags[:2])])
    with pytest.raises(InvalidRequest):
        uploads.upload_commit(session=running, upload_id=plan.upload_id, body=one_short)
    uploads.upload_commit(session=running, upload_id=plan.upload_id, body=commit)
    assert object_store.get(f"sessions/{running.id}/checkpoints/{plan.checkpoint_id}/big") == data


def test_a_file_of_any_size_has_no_more_parts_than_the_store_takes(running, monkeypatch):
    monkeypatch.setattr(free_space, "room_get", lambda: free_space.Room(1 << 50, 1 << 50))
    file = ManifestFile(path="big", size_bytes=65 << 30, sha256="0" * 64)
    plan = uploads.upload_open(
        session=running, body=CheckpointUpload(kind="model", step=7, files=[file])
    )
    (planned,) = plan.files
    assert len(planned.part_urls) * planned.part_size_bytes >= file.size_bytes
    last_bytes = file.size_bytes - planned.part_size_bytes * (len(planned.part_urls) - 1)
    assert put(planned.part_urls[-1], bytes(last_bytes))


@real_stores
@pytest.mark.smoke
@pytest.mark.parametrize(
    "sent", [b"", b"thre", b"threee", b"much more than three" * 100_000, [b"thr", b"ee"]]
)
def test_a_part_of_another_length_is_refused_by_the_store_itself(running, sent):
    plan = uploads.upload_open(session=running, body=opening({"a": b"three", "nothing": b""}))
    # some close the connection while it is sent
    with pytest.raises((urllib.error.HTTPError, OSError)) as refused:
        put(plan.files[0].part_urls[0], sent)
    if isinstance(refused.value, urllib.error.HTTPError):
        assert refused.value.code in (403, 411)
        refused.value.close()
    (upload,) = running.uploads.all()
    assert parts_written(upload.files[0]["key"], upload.files[0]["upload_id"]) == []
    commit = write(plan, {"a": b"three", "nothing": b""})
    uploads.upload_commit(session=running, upload_id=plan.upload_id, body=commit)


@real_stores
def test_a_file_that_the_server_writes_itself_has_no_more_either(s3, tmp_path, monkeypatch):
    monkeypatch.setattr(object_store, "MAX_PARTS", 2)
    # 17 MiB: three parts of boto3's own size
    content, path = bytes(range(256)) * (17 << 12), tmp_path / "file"
    path.write_bytes(content)
    object_store.upload(path, "tests/whole")
    head = object_store.client_get().head_object(
        Bucket=object_store.store_get().bucket, Key="tests/whole"
    )
    assert head["ETag"].endswith('-2"') and object_store.get("tests/whole") == content


def test_an_object_of_another_size_than_announced_is_refused(running):
    plan = uploads.upload_open(session=running, body=opening({"a": b"12345"}))
    (file,) = running.uploads.get().files
    # its URL names no size
    unbounded = object_store.part_url(file["key"], file["upload_id"], 1, expires_s=60)
    commit = UploadCommit(files=[UploadedFile(path="a", etags=[put(unbounded, b"123")])])
    with pytest.raises(Conflict, match="3 bytes"):
        uploads.upload_commit(session=running, upload_id=plan.upload_id, body=commit)
    assert running.checkpoints.get().state == "uploading"


def test_an_object_of_other_bytes_than_announced_is_refused(running):
    plan = uploads.upload_open(session=running, body=opening(FILES))
    forged = FILES | {"model.safetensors": b"forgery" * 1000}
    with pytest.raises(Conflict, match=r"model\.safetensors .* SHA-256"):
        uploads.upload_commit(session=running, upload_id=plan.upload_id, body=write(plan, forged))
    assert running.checkpoints.get().state == "uploading"


def test_a_large_object_of_other_bytes_is_taken_back_soon_after(project, running, monkeypatch):
    monkeypatch.setattr(verification, "MAX_SMALL_BYTES", 100)
    good, forged = (
        uploads.upload_open(session=running, body=opening(FILES, kind="state")) for _ in range(2)
    )
    uploads.upload_commit(session=running, upload_id=good.upload_id, body=write(good, FILES))
    written = write(forged, FILES | {"model.safetensors": b"forgery" * 1000})
    uploads.upload_commit(session=running, upload_id=forged.upload_id, body=written)
    verification.checkpoints_verify()
    kept, taken = (running.checkpoints.get(id=plan.checkpoint_id) for plan in (good, forged))
    assert (kept.state, kept.unverified) == ("committed", False)
    assert (taken.state, taken.unverified) == ("failed", False) and "SHA-256" in taken.failure
    assert checkpoints.checkpoint_resume_get(session_id=running.id) == kept
    with pytest.raises(Conflict, match="SHA-256"):
        checkpoints.checkpoint_download(
            project=project, session_id=running.id, checkpoint_id=taken.id
        )
    removal.removals_finish()
    assert (
        object_store.size_bytes(f"sessions/{running.id}/checkpoints/{taken.id}/model.safetensors")
        is None
    )


def test_a_part_that_was_never_written_is_no_checkpoint(running):
    plan = uploads.upload_open(session=running, body=opening({"a": b"12345"}))
    commit = UploadCommit(
        files=[UploadedFile(path="a", etags=['"0123456789abcdef0123456789abcdef"'])]
    )
    with pytest.raises((Conflict, StorageUnavailable)):
        uploads.upload_commit(session=running, upload_id=plan.upload_id, body=commit)
    assert running.checkpoints.get().state == "uploading"


ODD_PATHS = (
    "/etc/passwd",
    "../up",
    "a/../../b",
    "a//b",
    "a\\b",
    "a\nb",
    "a\x7fb",
    "",
    ".",
    "manifest.json",
    "a/",
)


@pytest.mark.parametrize("path", ODD_PATHS)
def test_a_path_that_leaves_its_folder_or_its_line_is_refused(running, path):
    with pytest.raises(InvalidRequest):
        uploads.upload_open(session=running, body=opening({path: b"x"}))
    assert not running.checkpoints.exists()


def test_a_path_that_stands_twice_is_refused(running):
    body = opening({"a": b"x"})
    with pytest.raises(InvalidRequest):
        uploads.upload_open(session=running, body=body.model_copy(update={"files": body.files * 2}))


def test_files_that_are_not_those_of_the_plan_are_refused(running):
    plan = uploads.upload_open(session=running, body=opening({"a": b"x"}))
    for files in (
        [],
        [UploadedFile(path="b", etags=["e"])],
        [UploadedFile(path="a", etags=["e"])] * 2,
    ):
        with pytest.raises(InvalidRequest):
            uploads.upload_commit(
                session=running, upload_id=plan.upload_id, body=UploadCommit(files=files)
            )


def test_another_sessions_uploads_and_checkpoints_are_not_found(project, running):
    plan = uploads.upload_open(session=running, body=opening({"a": b"x"}))
    _other, token = factories.runtime_make(project)
    other = leases.lease_check(token=token)
    with pytest.raises(NotFound):
        uploads.upload_commit(
            session=other, upload_id=plan.upload_id, body=write(plan, {"a": b"x"})
        )
    with pytest.raises(NotFound):
        uploads.upload_open(
            session=other, body=opening({"a": b"x"}, checkpoint_id=plan.checkpoint_id)
        )


def test_a_runtime_that_lost_its_lease_can_neither_open_nor_commit(running):
    plan = uploads.upload_open(session=running, body=opening(FILES))
    commit = write(plan, FILES)
    leases.lease_issue(session=Session.objects.get(id=running.id))
    with pytest.raises(StaleLease):
        uploads.upload_commit(session=running, upload_id=plan.upload_id, body=commit)
    with pytest.raises(StaleLease):
        uploads.upload_open(session=running, body=opening(FILES))
    assert [checkpoint.state for checkpoint in running.checkpoints.all()] == ["failed"]


def test_a_late_part_of_a_fenced_runtime_cannot_change_a_committed_object(project, running):
    wanted = checkpoints.checkpoint_request(project=project, session_id=running.id, kind="model")
    old = uploads.upload_open(session=running, body=opening({"a": b"old"}, checkpoint_id=wanted.id))
    token = leases.lease_issue(session=Session.objects.get(id=running.id))
    successor = leases.lease_check(token=token)
    new = uploads.upload_open(
        session=successor, body=opening({"a": b"new"}, checkpoint_id=wanted.id)
    )
    uploads.upload_commit(
        session=successor, upload_id=new.upload_id, body=write(new, {"a": b"new"})
    )
    put(old.files[0].part_urls[0], b"old")
    assert object_store.get(f"sessions/{running.id}/checkpoints/{wanted.id}/a") == b"new"


def test_a_new_runtime_resumes_from_the_last_committed_state(running):
    for step in (10, 20):
        files = {"w": str(step).encode()}
        plan = uploads.upload_open(session=running, body=opening(files, kind="state", step=step))
        uploads.upload_commit(session=running, upload_id=plan.upload_id, body=write(plan, files))
    uploads.upload_open(session=running, body=opening({"w": b"30"}, kind="state", step=30))
    resume = leases.runtime_register(session=running).resume_from
    assert resume.step == 20
    assert [(file.path, fetch(file.url)) for file in resume.files] == [("w", b"20")]


def test_old_automatic_states_make_room_and_ordered_and_pinned_ones_stay(project, running):
    ordered = checkpoints.checkpoint_request(project=project, session_id=running.id, kind="state")
    for step in (1, 2, 3, 4, 5):
        files = {"w": str(step).encode()}
        asked = ordered.id if step == 1 else None
        plan = uploads.upload_open(
            session=running, body=opening(files, kind="state", step=step, checkpoint_id=asked)
        )
        uploads.upload_commit(session=running, upload_id=plan.upload_id, body=write(plan, files))
        if step == 2:
            dropped = f"sessions/{running.id}/checkpoints/{plan.checkpoint_id}"
        running.checkpoints.filter(step=3).update(pinned=True)
    removal.removals_finish()
    kept = running.checkpoints.order_by("step").values_list("step", flat=True)
    assert list(kept) == [1, 3, 4, 5]
    assert (
        object_store.get(f"{dropped}/w") is None
        and object_store.get(f"{dropped}/manifest.json") is None
    )


def test_the_last_copy_of_the_journal_is_kept_and_handed_to_the_next_runtime(running):
    keys = []
    for data in (b"first", b"second"):
        body = opening({"journal.sqlite3": data}, kind="journal")
        plan = uploads.upload_open(session=running, body=body)
        commit = write(plan, {"journal.sqlite3": data})
        for _ in range(2):
            assert (
                uploads.upload_commit(
                    session=running, upload_id=plan.upload_id, body=commit
                ).checkpoint_id
                is None
            )
        keys.append(f"sessions/{running.id}/journal/{hashlib.sha256(data).hexdigest()}.sqlite3")
    (stored,) = leases.runtime_register(session=running).journal_files
    assert (fetch(stored.url), stored.sha256) == (b"second", hashlib.sha256(b"second").hexdigest())
    assert [object_store.size_bytes(key) for key in keys] == [None, 6]


@pytest.mark.parametrize(
    ("commit", "path", "fields"),
    [
        (copy_commit, "journal.sqlite3", {"kind": "journal"}),
        (part_commit, "part-000001.parquet", {"kind": "archive", "part": 1, "episodes": 2}),
        (
            pack_commit,
            "pack",
            {"kind": "episodes", "packed": [{"episode_id": "ep", "offset": 0, "size_bytes": 3}]},
        ),
    ],
)
def test_a_commit_that_is_executed_late_a_second_time_does_not_take_back_what_came_after(
    running, commit, path, fields
) -> None:
    EpisodeRecord.objects.create(session=running, episode_id="ep", seq=1, begun_at=1.0)
    for data in (b"first", b"second"):
        plan = uploads.upload_open(session=running, body=opening({path: data}, **fields))
        written = write(plan, {path: data})
        uploads.upload_commit(session=running, upload_id=plan.upload_id, body=written)
        if data == b"first":
            read_before = Upload.objects.get(id=plan.upload_id)
    with pytest.raises(NotFound):
        commit(session=running, upload=read_before)
    (key,) = object_store.keys_under(f"sessions/{running.id}/")
    named = [
        *(file["key"] for file in journal_files(Session.objects.get(id=running.id).journal)),
        *(part_key(running, part.sha256) for part in running.archive_parts.all()),
        *(pack_key(running, pack.sha256) for pack in EpisodePack.objects.all()),
    ]
    assert named == [key] and object_store.get(key) == b"second"


def test_a_journal_of_two_files_is_refused(running):
    with pytest.raises(ValidationError, match="at most 1 item"):
        opening({"a": b"1", "b": b"2"}, kind="journal")


def test_what_is_of_other_kinds_is_refused():
    for unused in ({"step": 3}, {"checkpoint_id": "ckp_1"}, {"part": 1}, {"episodes": 2}):
        with pytest.raises(ValidationError, match="Extra inputs"):
            opening({"journal.sqlite3": b"x"}, kind="journal", **unused)


def other_signature(url: str) -> str:
    return url.replace("X-Amz-Signature=", "X-Amz-Signature=0")


def no_signature(url: str) -> str:
    return url.partition("?")[0]


# Swift takes what has no signature at all for a request in another dialect than S3, and answers
# 400.
@real_stores
@pytest.mark.parametrize(("spoil", "codes"), [(other_signature, {403}), (no_signature, {400, 403})])
def test_the_store_serves_no_one_without_a_signature(running, spoil, codes):
    plan = uploads.upload_open(session=running, body=opening({"a": b"x"}))
    with pytest.raises(urllib.error.HTTPError) as refused:
        put(spoil(plan.files[0].part_urls[0]), b"x")
    assert refused.value.code in codes
    refused.value.close()
    uploads.upload_commit(session=running, upload_id=plan.upload_id, body=write(plan, {"a": b"x"}))
    key = f"sessions/{running.id}/checkpoints/{plan.checkpoint_id}/a"
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetch(spoil(object_store.read_url(key, expires_s=60)))
    assert refused.value.code in codes
    refused.value.close()


@real_stores
def test_a_presigned_url_expires(running):
    object_store.put("short", b"x")
    url = object_store.read_url("short", expires_s=1)

    def is_refused() -> bool:
        try:
            fetch(url)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code == 403
        return False

    assert wait_until(is_refused, timeout_s=25, poll_s=0.2)


def test_a_store_that_does_not_answer_is_named_and_nothing_is_written(project, settings):
    settings.S3_ENDPOINT_URL, settings.S3_ACCESS_KEY, settings.S3_SECRET_KEY = (
        "http://127.0.0.1:9",
        "a",
        "b",
    )
    _session, token = factories.runtime_make(project)
    session = leases.lease_check(token=token)
    with pytest.raises(StorageUnavailable) as refused:
        uploads.upload_open(session=session, body=opening({"a": b"x"}))
    assert refused.value.code.retryable and refused.value.hint
    assert not session.checkpoints.exists() and not session.uploads.exists()


def test_credentials_are_private_and_survive_a_restart(tmp_path):
    first = seaweedfs.credentials_get(tmp_path)
    assert seaweedfs.credentials_get(tmp_path) == first
    assert (tmp_path / "s3" / "credentials.json").stat().st_mode & 0o777 == 0o600
    ports = seaweedfs.ports_get(tmp_path)
    assert seaweedfs.ports_get(tmp_path) == ports and len(set(ports.values())) == len(ports) == 5
    assert json.loads((tmp_path / "s3" / "ports.json").read_text()) == ports
