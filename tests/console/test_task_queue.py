"""The queue of tasks: each attempt is one worker's at a time, and a dead worker's is another's after its deadline."""

from datetime import timedelta

import pytest
from django.utils import timezone

from console.errors import Conflict, InvalidRequest, NotFound, QuotaExceeded, StaleLease
from console.sessions.models import QueuedTask, Session
from console.sessions.tasks import queue
from console.users.models import Project
from support import factories
from tinkerscript.wire.queue.tasks import TasksLease, TasksPut
from tinkerscript.wire.sessions import SessionKind


@pytest.fixture
def session(project) -> Session:
    return factories.session_make(project)


@pytest.fixture
def ids(project, session) -> dict:
    return {"project": project, "session_id": session.id}


def put(ids, *names, **options):
    rows = [{"name": name, "row": {"q": name}} for name in names]
    return queue.tasks_put(**ids, body=TasksPut(rows=rows, **options))


def lease(ids, count=1, worker="one", **options):
    return queue.tasks_lease(**ids, body=TasksLease(worker=worker, count=count, **options))


def run_out() -> None:
    """As if the leases were of an hour ago."""
    QueuedTask.objects.filter(state="running").update(lease_expires_at=timezone.now() - timedelta(seconds=1))


def counts(ids) -> tuple[int, ...]:
    now = queue.task_counts(**ids)
    return now.waiting, now.running, now.done, now.failed, now.workers


def test_attempts_are_handed_out_once_in_order(ids) -> None:
    assert put(ids, "a", "b", attempts=2).waiting == 4
    first, second = lease(ids, 3), lease(ids, 3, worker="two")
    assert [task.name for task in first.items] == ["a", "a", "b"]
    assert [task.name for task in second.items] == ["b"]
    assert (first.items[0].row, first.items[0].try_number, first.items[0].episode_id) == ({"q": "a"}, 1, None)
    assert counts(ids) == (0, 4, 0, 0, 2)
    for task in first.items:
        assert queue.task_finish(**ids, task_id=task.task_id, lease=task.lease, error=None).state == "done"
    assert counts(ids) == (0, 1, 3, 0, 1)


def test_a_dead_workers_attempt_goes_to_another_with_the_episode_it_had(ids) -> None:
    put(ids, "a")
    (dead,) = lease(ids).items
    queue.task_episode_set(**ids, task_id=dead.task_id, lease=dead.lease, episode_id="ep_1")
    assert lease(ids, worker="two").items == []
    run_out()
    assert counts(ids) == (1, 0, 0, 0, 0)
    (again,) = lease(ids, worker="two").items
    assert (again.task_id, again.try_number, again.episode_id) == (dead.task_id, 2, "ep_1")
    for late in (
        lambda: queue.task_episode_set(**ids, task_id=dead.task_id, lease=dead.lease, episode_id="ep_2"),
        lambda: queue.task_finish(**ids, task_id=dead.task_id, lease=dead.lease, error=None),
        lambda: queue.task_finish(**ids, task_id=dead.task_id, lease=dead.lease, error="late"),
    ):
        with pytest.raises(StaleLease, match="another worker has it"):
            late()
    assert lease(ids, 0, held=[dead.lease, again.lease]).lost == [dead.lease]


def test_a_lease_that_is_renewed_does_not_run_out(ids) -> None:
    put(ids, "a")
    (held,) = lease(ids, lease_s=1).items
    run_out()
    assert lease(ids, 0, held=[held.lease]).lost == []
    assert lease(ids, worker="two").items == []


def test_a_failed_attempt_is_tried_again_then_named(ids) -> None:
    put(ids, "a", tries=2)
    for expected in ("waiting", "failed"):
        (task,) = lease(ids).items
        for _ in range(2):  # the same word twice
            done = queue.task_finish(**ids, task_id=task.task_id, lease=task.lease, error="no idea")
            assert done.state == expected
    assert lease(ids).items == []
    now = queue.task_counts(**ids)
    assert (now.failed, now.failures[0].name, now.failures[0].error) == (1, "a", "no idea")


def test_what_is_there_already_is_refused_until_it_is_over(ids) -> None:
    put(ids, "a")
    with pytest.raises(Conflict, match="Task 'a' is in the queue already"):
        put(ids, "b", "a")
    with pytest.raises(InvalidRequest, match="Task 'c' is there 2 times"):
        put(ids, "c", "c")
    assert counts(ids)[0] == 1, "all or none"
    (task,) = lease(ids).items
    queue.task_finish(**ids, task_id=task.task_id, lease=task.lease, error=None)
    assert put(ids, "a").waiting == 1


def test_rows_and_bytes_have_limits(ids, monkeypatch) -> None:
    with pytest.raises(InvalidRequest, match=r"row of task 'big' has \d+ bytes; 16384 are allowed"):
        queue.tasks_put(**ids, body=TasksPut(rows=[{"name": "big", "row": "x" * 17_000}]))
    monkeypatch.setattr(queue, "MAX_ATTEMPTS", 3)
    put(ids, "a", attempts=2)
    with pytest.raises(QuotaExceeded, match="room for 3 attempts; 2 are there, 2 were put"):
        put(ids, "b", attempts=2)
    monkeypatch.setattr(queue, "MAX_BYTES", 29)
    with pytest.raises(QuotaExceeded, match="29 are allowed"):
        put(ids, "b")


def test_a_session_that_has_ended_or_is_no_ones_loop_is_named(ids, session, bob) -> None:
    put(ids, "a")
    (task,) = lease(ids).items
    Session.objects.filter(id=session.id).update(kind=SessionKind.TINKER)
    with pytest.raises(Conflict, match="Tinker client"):
        put(ids, "b")
    Session.objects.filter(id=session.id).update(kind=SessionKind.EPISODES, state="stopped")
    for call in (lambda: put(ids, "b"), lambda: lease(ids)):
        with pytest.raises(Conflict, match="The session is stopped"):
            call()
    assert queue.task_finish(**ids, task_id=task.task_id, lease=task.lease, error=None).state == "done"
    with pytest.raises(NotFound):
        queue.task_finish(**ids, task_id="tsk_none", lease=task.lease, error=None)
    with pytest.raises(NotFound):
        queue.task_counts(project=Project.objects.get(memberships__user=bob), session_id=session.id)
