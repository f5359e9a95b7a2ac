"""The copy of a journal in the store: a whole file and what changed since, handed to the session's
next runtime.
"""

import hashlib

import pytest

from console.errors import Conflict, NotFound, QuotaExceeded
from console.object_store import client as object_store
from console.sessions.limits import quotas
from console.sessions.models import Session
from console.sessions.runtime import leases, uploads
from console.users.selectors import project_get
from support import factories
from support.store_calls import fetch, opening, write


@pytest.fixture
def running(project, s3) -> Session:
    """A session with a runtime: the row as the runtime's lease opens it."""
    _session, token = factories.runtime_make(project)
    return leases.lease_check(token=token)


def plan_for(session: Session, data: bytes, *follows: bytes):
    hashes = [hashlib.sha256(each).hexdigest() for each in follows]
    plan = uploads.upload_open(
        session=session, body=opening({"j": data}, kind="journal", follows=hashes)
    )
    return plan.upload_id, write(plan, {"j": data})


def copy_write(session: Session, data: bytes, *follows: bytes) -> None:
    upload_id, commit = plan_for(session, data, *follows)
    for _ in range(2):
        uploads.upload_commit(session=session, upload_id=upload_id, body=commit)


def test_the_copy_that_is_there_counts_against_the_projects_storage(
    running: Session, project, bob
) -> None:
    others = factories.session_make(project_get(user=bob))
    Session.objects.filter(id=others.id).update(journal_bytes=1000)

    def used() -> list[int]:
        row = Session.objects.get(id=running.id)
        return [
            quotas.quotas_get(project=project).storage_bytes.used,
            quotas.session_stored_bytes(session=row),
        ]

    upload_id, commit = plan_for(running, b"whole")
    assert used() == [5, 5], "while it is uploaded"
    uploads.upload_commit(session=running, upload_id=upload_id, body=commit)
    assert used() == [5, 5], "and once it is there"
    copy_write(running, b"changes", b"whole")
    assert used() == [12, 12]
    copy_write(running, b"another")
    assert used() == [7, 7], "what was replaced is gone"
    project.storage_quota_bytes = 7
    with pytest.raises(QuotaExceeded, match="journals"):
        quotas.storage_quota_check(project=project)


def test_changes_come_after_a_whole_copy_until_another_replaces_them(running: Session) -> None:
    def handed_on() -> list[bytes]:
        assignment = leases.runtime_register(session=running)
        return [fetch(file.url) for file in assignment.journal_files]

    copy_write(running, b"whole")
    copy_write(running, b"first", b"whole")
    copy_write(running, b"second", b"whole", b"first")
    # a runtime whose commit had no response opens it again
    copy_write(running, b"second", b"whole", b"first")
    assert handed_on() == [b"whole", b"first", b"second"]
    copy_write(running, b"another whole")
    assert handed_on() == [b"another whole"]
    for gone in (b"whole", b"first", b"second"):
        key = f"sessions/{running.id}/journal/{hashlib.sha256(gone).hexdigest()}.sqlite3"
        assert object_store.size_bytes(key) is None


@pytest.mark.parametrize("follows", [(b"other",), (b"whole", b"never sent"), (b"first", b"whole")])
def test_changes_to_another_copy_are_refused(running: Session, follows: tuple[bytes, ...]) -> None:
    copy_write(running, b"whole")
    with pytest.raises(Conflict, match="not the one"):
        copy_write(running, b"changes", *follows)


def test_changes_are_not_committed_to_a_copy_that_came_in_between(running: Session) -> None:
    copy_write(running, b"whole")
    upload_id, commit = plan_for(running, b"late", b"whole")
    copy_write(running, b"newer whole")
    with pytest.raises((Conflict, NotFound)):
        uploads.upload_commit(session=running, upload_id=upload_id, body=commit)
