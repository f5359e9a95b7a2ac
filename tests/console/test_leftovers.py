"""What is removed without being asked for: unfinished uploads, and what ended sessions would have
gone on from.
"""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.core.cache import cache
from django.utils import timezone

from console.object_store import client as object_store
from console.sessions.checkpoints import leftovers, removal
from console.sessions.checkpoints.leftovers import (
    ended_states_trim,
    local_states_remove,
    uploads_sweep,
)
from console.sessions.limits.quotas import quotas_get
from console.sessions.models import Checkpoint, Session, Upload
from console.sessions.runtime import leases, uploads
from console.sessions.services import session_delete
from support import factories
from support.store_calls import opening, write
from tinkerscript.wire.sessions import SessionState

LONG_AGO = timedelta(seconds=-5)  # stores tell whole seconds, and one of them the next
FILES = {"config.json": b'{"a": 1}', "model.safetensors": b"weights" * 1000}


@pytest.fixture
def running(project, s3):
    _session, token = factories.runtime_make(project)
    return leases.lease_check(token=token)


def unfinished(session_id: str) -> set[str]:
    return {upload_id for _, upload_id, _ in object_store.multipart_list(f"sessions/{session_id}/")}


def sweep() -> None:
    cache.clear()
    uploads_sweep()


def test_an_upload_that_can_still_be_committed_is_left_alone(running, monkeypatch) -> None:
    plan = uploads.upload_open(session=running, body=opening(FILES))
    commit = write(plan, FILES)
    monkeypatch.setattr(leftovers, "ROW_FOLLOWS", LONG_AGO)
    sweep()
    assert len(unfinished(running.id)) == len(FILES)
    uploads.upload_commit(session=running, upload_id=plan.upload_id, body=commit)
    assert unfinished(running.id) == set()


@pytest.mark.parametrize("why", ["its URLs have ended", "its session has ended", "its row is gone"])
def test_parts_of_an_upload_that_no_commit_can_come_for_are_removed(
    running, monkeypatch, why: str
) -> None:
    plan = uploads.upload_open(session=running, body=opening(FILES))
    write(plan, FILES)
    row = Upload.objects.filter(id=plan.upload_id)
    if why == "its URLs have ended":
        row.update(created_at=timezone.now() - timedelta(seconds=settings.TRANSFER_URL_S + 1))
    elif why == "its session has ended":
        Session.objects.filter(id=running.id).update(state=SessionState.STOPPED)
    else:
        row.delete()
    sweep()
    assert len(unfinished(running.id)) == len(FILES), "one that was just begun may have no row yet"
    monkeypatch.setattr(leftovers, "ROW_FOLLOWS", LONG_AGO)
    sweep()
    assert unfinished(running.id) == set()


def test_a_deleted_session_leaves_no_part_of_an_upload(project, running) -> None:
    write(uploads.upload_open(session=running, body=opening(FILES)), FILES)
    Session.objects.filter(id=running.id).update(state=SessionState.STOPPED, launch_handle=None)
    session_delete(project=project, session_id=running.id)
    removal.removals_finish()
    assert (
        unfinished(running.id) == set()
        and list(object_store.keys_under(f"sessions/{running.id}/")) == []
    )


def test_what_is_being_uploaded_counts_as_stored(project, running) -> None:
    before = quotas_get(project=project).storage_bytes.used
    uploads.upload_open(session=running, body=opening(FILES))
    assert quotas_get(project=project).storage_bytes.used - before == sum(map(len, FILES.values()))


def state(session: Session, step: int, **fields: object) -> Checkpoint:
    return Checkpoint.objects.create(
        session=session,
        kind="state",
        state="committed",
        committed_at=timezone.now(),
        step=step,
        **fields,
    )


def test_an_ended_session_keeps_its_last_state_for_a_month(project) -> None:
    ended = factories.session_make(project, state=SessionState.STOPPED)
    _first, last = state(ended, 1), state(ended, 2)
    pinned, ordered = state(ended, 0, pinned=True), state(ended, 0, ordered=True)
    model = Checkpoint.objects.create(session=ended, kind="model", state="committed", step=1)
    going = factories.session_make(project, state=SessionState.SUSPENDED)
    both = {state(going, 1).id, state(going, 2).id}
    ended_states_trim()
    assert set(ended.checkpoints.values_list("id", flat=True)) == {
        last.id,
        pinned.id,
        ordered.id,
        model.id,
    }
    Session.objects.update(
        state_since=timezone.now() - leftovers.LAST_STATE_KEPT - timedelta(seconds=1)
    )
    ended_states_trim()
    assert set(ended.checkpoints.values_list("id", flat=True)) == {pinned.id, ordered.id, model.id}
    assert set(going.checkpoints.values_list("id", flat=True)) == both


def test_states_on_this_disk_go_with_their_session_and_its_journal_stays(
    project, monkeypatch
) -> None:
    volumes: list[Path] = []
    try:
        for fields in (
            {"state": "stopped"},
            {"state": "stopped", "launch_handle": {"launch": "x"}},
            {"state": "queued"},
        ):
            session = factories.session_make(project, **fields)
            volumes.append(settings.DATA / "runtimes" / session.id)
            for name in (
                "state-00000001/model",
                "state-00000002/model",
                ".state-00000003.writing/model",
                "export/model",
            ):
                (volumes[-1] / name).parent.mkdir(parents=True)
                (volumes[-1] / name).write_text("weights")
            (volumes[-1] / "journal.sqlite3").write_text("episodes")
        local_states_remove()
        assert [path.name for path in volumes[0].iterdir()] == ["journal.sqlite3"]
        for going_on in volumes[1:]:
            assert len(list(going_on.iterdir())) == 5
        # each second, for as long as the folder of the ended one is there
        with monkeypatch.context() as patched:
            patched.setattr(Path, "glob", lambda folder, pattern: pytest.fail(f"{folder} again"))
            local_states_remove()
        Session.objects.filter(id=volumes[1].name).update(launch_handle=None)
        local_states_remove()
        assert [path.name for path in volumes[1].iterdir()] == ["journal.sqlite3"]
        assert len(list(volumes[2].iterdir())) == 5
    finally:
        for volume in volumes:
            shutil.rmtree(volume, ignore_errors=True)
