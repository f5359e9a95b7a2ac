"""The archive of episodes on the server: parts are written under the lease, read by their project,
and go with it.
"""

import json

import pytest
from django.core.management import call_command
from django.utils import timezone
from pydantic import ValidationError

from console.audit.models import AuditRecord
from console.errors import Conflict, InvalidRequest, NotFound, QuotaExceeded, StaleLease
from console.object_store import client as object_store
from console.sessions import services
from console.sessions.checkpoints import checkpoints, removal
from console.sessions.episodes import documents
from console.sessions.limits import quotas
from console.sessions.models import ArchivePart, EpisodeRecord, Session
from console.sessions.runtime import leases, uploads
from console.users.models import Project
from support import factories
from support.real_stores import real_stores
from support.store_calls import asked, fetch, opening, write
from tinkerscript.wire.runtime import ArchiveUpload
from tinkerscript.wire.sessions import SessionState


@pytest.fixture
def running(project, s3):
    """A session with a runtime: the row as the runtime's lease opens it."""
    _session, token = factories.runtime_make(project)
    return leases.lease_check(token=token)


def part(number: int, data: bytes, episodes: int = 2) -> ArchiveUpload:
    name = f"part-{number:06d}.parquet"
    return opening({name: data}, kind="archive", part=number, episodes=episodes)


def store(session: Session, number: int, data: bytes) -> None:
    plan = uploads.upload_open(session=session, body=part(number, data))
    commit = write(plan, {f"part-{number:06d}.parquet": data})
    answer = uploads.upload_commit(session=session, upload_id=plan.upload_id, body=commit)
    assert (plan.checkpoint_id, answer.checkpoint_id) == (None, None)


def export(project: Project, session: Session) -> dict[int, bytes]:
    """What each part holds, as its URL serves it."""
    listing = documents.archive_export(project=project, session_id=session.id)
    assert listing.episodes == 2 * len(listing.files)
    return {file.part: fetch(file.url) for file in listing.files}


@pytest.mark.parametrize(
    "state", [SessionState.READY, SessionState.SUSPENDED, SessionState.STOPPED]
)
def test_every_part_is_exported_in_order_whatever_the_session_does(project, running, state) -> None:
    store(running, 1, b"first")
    store(running, 2, b"second")
    Session.objects.filter(id=running.id).update(state=state)
    assert export(project, running) == {1: b"first", 2: b"second"}
    listing = documents.archive_export(project=project, session_id=running.id)
    assert [file.path for file in listing.files] == ["part-000001.parquet", "part-000002.parquet"]
    assert 0 < (listing.expires_at - timezone.now()).total_seconds() <= 900


@real_stores
def test_a_browser_keeps_a_part_under_a_name_that_shows_what_it_is(project, running) -> None:
    store(running, 1, b"first")
    (file,) = documents.archive_export(project=project, session_id=running.id).files
    headers, body = asked("GET", file.url, b"", {})
    assert (headers["content-disposition"], body) == (
        f'attachment; filename="{running.id}-part-000001.parquet"',
        b"first",
    )


def test_a_part_that_is_stored_again_is_there_once(project, running) -> None:
    store(running, 1, b"first")
    store(running, 1, b"first")
    assert export(project, running) == {1: b"first"}
    store(running, 1, b"written by another version")
    assert export(project, running) == {1: b"written by another version"}
    assert len(list(object_store.keys_under(f"sessions/{running.id}/episodes/"))) == 1


def test_a_copy_of_the_journal_under_way_beside_a_part_keeps_neither_from_its_commit(
    project, running
) -> None:
    journal = {"journal.sqlite3": b"rows"}
    opened = uploads.upload_open(session=running, body=opening(journal, kind="journal"))
    plan = uploads.upload_open(session=running, body=part(1, b"first"))
    uploads.upload_commit(session=running, upload_id=opened.upload_id, body=write(opened, journal))
    commit = write(plan, {"part-000001.parquet": b"first"})
    uploads.upload_commit(session=running, upload_id=plan.upload_id, body=commit)
    assert export(project, running) == {1: b"first"}
    assert [file.size_bytes for file in leases.runtime_register(session=running).journal_files] == [
        4
    ]


def test_nothing_archived_yet_is_reported_with_when_it_will_be(project, running) -> None:
    uploads.upload_open(session=running, body=part(1, b"not committed"))
    with pytest.raises(Conflict) as refused:
        documents.archive_export(project=project, session_id=running.id)
    assert "checkpoint" in refused.value.hint


def test_another_project_gets_not_found(running, bob) -> None:
    store(running, 1, b"first")
    with pytest.raises(NotFound):
        documents.archive_export(
            project=Project.objects.get(memberships__user=bob), session_id=running.id
        )


def test_a_runtime_that_lost_its_lease_archives_nothing(running) -> None:
    plan = uploads.upload_open(session=running, body=part(1, b"first"))
    commit = write(plan, {"part-000001.parquet": b"first"})
    leases.lease_issue(session=Session.objects.get(id=running.id))
    with pytest.raises(StaleLease):
        uploads.upload_commit(session=running, upload_id=plan.upload_id, body=commit)
    assert not ArchivePart.objects.exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"part": None},
        {"checkpoint_id": "ckp_1"},
        {"step": 1},
        {"kind": "journal"},
        {"kind": "state"},
    ],
)
def test_a_part_that_is_not_one_is_refused(running, fields) -> None:
    files = {"part-000001.parquet": b"1"}
    with pytest.raises(ValidationError):
        opening(files, **({"kind": "archive", "part": 1} | fields))
    with pytest.raises(ValidationError):
        opening(files | {"b": b"2"}, kind="archive", part=1)
    with pytest.raises(InvalidRequest):
        uploads.upload_open(session=running, body=opening(files, kind="archive", part=2))


def test_the_urls_of_an_export_are_in_the_audit_log(project, running, api_key, client_for) -> None:
    store(running, 1, b"first")
    answer = client_for(api_key).get(f"/v1/sessions/{running.id}/episodes/export")
    assert answer.status_code == 200 and answer.json()["files"][0]["part"] == 1
    written = [json.loads(row.content) for row in AuditRecord.objects.all()]
    assert [entry["target"] for entry in written if entry["action"] == "episode_export"] == [
        {"session_id": running.id}
    ]


def test_archived_episodes_count_as_stored(project, running) -> None:
    store(running, 1, b"first")
    assert quotas.quotas_get(project=project).storage_bytes.used == 5
    ArchivePart.objects.update(size_bytes=1 << 30)
    call_command("set_quota", project.id, "--storage-gib", "1")
    project.refresh_from_db()
    with pytest.raises(QuotaExceeded, match=r"1\.00 GiB of checkpoints, episodes and journals"):
        checkpoints.checkpoint_request(project=project, session_id=running.id, kind="model")


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("part-000001.parquet", {"kind": "archive", "part": 1, "episodes": 2}),
        (
            "pack",
            {"kind": "episodes", "packed": [{"episode_id": "ep", "offset": 0, "size_bytes": 5}]},
        ),
        ("journal.sqlite3", {"kind": "journal"}),
    ],
)
def test_what_is_being_uploaded_counts_as_stored_and_once(
    project, running, settings, path, fields
) -> None:
    """Its parts are in the store before the commit; a project at its quota must not keep more there
    than it may.
    """

    def used() -> int:
        return quotas.quotas_get(project=project).storage_bytes.used

    EpisodeRecord.objects.create(session=running, episode_id="ep", seq=1, begun_at=1.0)
    files = {path: b"first"}
    plan = uploads.upload_open(session=running, body=opening(files, **fields))
    assert used() == 5
    commit = write(plan, files)
    for _ in range(2):
        uploads.upload_commit(session=running, upload_id=plan.upload_id, body=commit)
        assert used() == 5
    uploads.upload_open(session=running, body=opening({path: b"seconds"}, **fields))
    assert used() == 12
    settings.TRANSFER_URL_S = 0  # it cannot be committed any more: its parts are swept
    assert used() == 5


def test_the_archive_goes_with_its_session(project, running) -> None:
    store(running, 1, b"first")
    Session.objects.filter(id=running.id).update(state=SessionState.STOPPED, launch_handle=None)
    services.session_delete(project=project, session_id=running.id)
    removal.removals_finish()
    assert (
        list(object_store.keys_under(f"sessions/{running.id}/")) == []
        and not ArchivePart.objects.exists()
    )
