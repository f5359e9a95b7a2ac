"""The queue of tasks: each attempt is one worker's at a time, and a dead worker's is another's
after its deadline.
"""

from datetime import timedelta

import pytest
from django.utils import timezone

from console.errors import Conflict, InvalidRequest, NotFound, QuotaExceeded, StaleLease
from console.sessions.models import Session
from console.sessions.tasks import queue, room
from console.sessions.tasks.models import QueuedTask
from console.users.models import Project
from support import factories
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.sessions import SessionKind
from tinkerscript.wire.tasks import TaskGroup, TasksLease, TasksPut


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
    QueuedTask.objects.filter(state="running").update(
        lease_expires_at=timezone.now() - timedelta(seconds=1)
    )


def counts(ids) -> tuple[int, ...]:
    now = queue.task_counts(**ids)
    return now.waiting, now.running, now.done, now.failed, now.workers


def test_attempts_are_handed_out_once_in_order(ids) -> None:
    assert put(ids, "a", "b", attempts=2).waiting == 4
    first, second = lease(ids, 3), lease(ids, 3, worker="two")
    assert [task.name for task in first.items] == ["a", "a", "b"]
    assert [task.name for task in second.items] == ["b"]
    assert (first.items[0].row, first.items[0].try_number, first.items[0].episode_id) == (
        {"q": "a"},
        1,
        None,
    )
    assert counts(ids) == (0, 4, 0, 0, 2)
    for task in first.items:
        assert (
            queue.task_finish(**ids, task_id=task.task_id, lease=task.lease, error=None).state
            == "done"
        )
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
        lambda: queue.task_episode_set(
            **ids, task_id=dead.task_id, lease=dead.lease, episode_id="ep_2"
        ),
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
    monkeypatch.setattr(room, "MAX_ATTEMPTS", 3)
    put(ids, "a", attempts=2)
    with pytest.raises(QuotaExceeded, match="room for 3 attempts; 2 are there, 2 were put"):
        put(ids, "b", attempts=2)
    monkeypatch.setattr(room, "MAX_BYTES", 29)
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
    assert (
        queue.task_finish(**ids, task_id=task.task_id, lease=task.lease, error=None).state == "done"
    )
    with pytest.raises(NotFound):
        queue.task_finish(**ids, task_id="tsk_none", lease=task.lease, error=None)
    with pytest.raises(NotFound):
        queue.task_counts(project=Project.objects.get(memberships__user=bob), session_id=session.id)


def judged_put(ids, *names, **options):
    return put(ids, *names, judged=True, attempts=SessionConfig().grpo_n, **options)


def group_set(ids, task, episode_ids, outputs=None):
    body = TaskGroup(lease=task.lease, episode_ids=episode_ids, outputs=outputs)
    return queue.task_group_set(**ids, task_id=task.task_id, body=body)


def test_a_judged_task_is_one_lease_of_all_its_attempts_for_a_worker_with_a_judge(ids) -> None:
    n = SessionConfig().grpo_n
    judged_put(ids, "a", "b")
    put(ids, "plain")
    plain = lease(ids, 3)
    assert ([task.name for task in plain.items], plain.others_waiting) == (["plain"], 2 * n)
    (group,) = lease(ids, 1, worker="two", judged=True).items
    assert (group.name, group.attempts, group.judged) == ("a", n, True)
    now = queue.task_counts(**ids)
    assert (now.waiting, now.running, now.waiting_judged, now.running_judged, now.workers) == (
        n,
        n + 1,
        n,
        n,
        2,
    )
    assert (
        queue.task_finish(**ids, task_id=group.task_id, lease=group.lease, error=None).state
        == "done"
    )
    assert counts(ids) == (n, 1, n, 0, 1)
    with pytest.raises(InvalidRequest, match=f"one group of grpo_n={n} attempts; attempts is 3"):
        put(ids, "c", judged=True, attempts=3)
    assert put(ids, "c", judged=True, attempts=3, eval=True).waiting == n + 3


def test_a_judged_task_of_a_lost_worker_goes_on_with_its_episodes_and_the_rewards_that_were_decided(
    ids,
) -> None:
    judged_put(ids, "a", tries=3)
    (dead,) = lease(ids, judged=True).items
    group_set(ids, dead, ["ep_1", "ep_2"])
    run_out()
    (second,) = lease(ids, worker="two", judged=True).items
    assert (second.episode_ids, second.outputs) == (["ep_1", "ep_2"], None)
    with pytest.raises(StaleLease):
        group_set(ids, dead, ["ep_1"], [{"reward": 1.0}])
    with pytest.raises(InvalidRequest, match="1 outputs for 2 episodes"):
        group_set(ids, second, ["ep_3", "ep_4"], [{"reward": 1.0}])
    group_set(
        ids,
        second,
        ["ep_3", "ep_4"],
        [{"reward": 1.0}, {"reward": 0.5, "metadata": {"judge": {"of": 2}}}],
    )
    with pytest.raises(Conflict, match="are decided"):  # a message that was under way meanwhile
        group_set(ids, second, ["ep_3", "ep_4", "ep_5"])
    queue.task_finish(**ids, task_id=second.task_id, lease=second.lease, error="lost its server")
    (third,) = lease(ids, judged=True).items
    assert (third.try_number, third.episode_ids) == (3, ["ep_3", "ep_4"])
    assert [output.reward for output in third.outputs] == [1.0, 0.5]
    queue.task_finish(**ids, task_id=third.task_id, lease=third.lease, error=None)
    assert QueuedTask.objects.get().outputs is None


def test_outputs_count_as_bytes_of_the_queue_and_a_reply_has_no_more_than_it_may(
    ids, monkeypatch
) -> None:
    judged_put(ids, "a", "b", "c")
    first, second = lease(ids, 16, judged=True).items
    kept = [{"reward": 1.0, "metadata": {"read": "x" * 2000}}]
    monkeypatch.setattr(queue, "MAX_OUTPUTS_BYTES", 1500)
    with pytest.raises(
        InvalidRequest, match=r"outputs of task 'a' have \d+ bytes; 1500 are allowed"
    ):
        group_set(ids, first, ["ep_1"], kept)
    monkeypatch.setattr(queue, "MAX_OUTPUTS_BYTES", 1 << 20)
    group_set(ids, first, ["ep_1"], kept)
    row = QueuedTask.objects.get(task_id=first.task_id)
    assert row.size_bytes == room.json_bytes(row.row) + room.json_bytes(row.outputs) > 2000
    monkeypatch.setattr(room, "MAX_DECIDED_BYTES", 4000)
    with pytest.raises(QuotaExceeded, match="4000 are allowed"):
        group_set(ids, second, ["ep_2"], kept)
    assert group_set(ids, first, ["ep_1"], kept).outputs, "its own bytes count once"
    with pytest.raises(InvalidRequest, match="17 episodes are too many for 8 attempts"):
        group_set(ids, second, ["ep"] * 17)
    run_out()
    monkeypatch.setattr(queue, "MAX_LEASED_BYTES", 2000)
    assert [task.name for task in lease(ids, 24, judged=True).items] == ["a"], "one, be it larger"
    monkeypatch.setattr(queue, "MAX_LEASED_BYTES", 14)
    assert [task.name for task in lease(ids, 24, judged=True).items] == ["b"]


def test_judged_tasks_are_handed_out_by_their_attempts(ids) -> None:
    put(ids, "a", "b", "c", judged=True, attempts=16, eval=True)
    put(ids, "d", "e", judged=True, attempts=2, eval=True)
    big = lease(ids, 8, judged=True)
    assert ([task.name for task in big.items], big.others_waiting) == (["a"], 0), (
        "larger than there is room for"
    )
    assert lease(ids, 8, judged=True, held=[big.items[0].lease]).items == []
    assert [task.name for task in lease(ids, 33, judged=True).items] == ["b", "c"]
    assert [task.name for task in lease(ids, 4, judged=True).items] == ["d", "e"]


def test_a_late_message_takes_no_decided_rewards_away(ids) -> None:
    judged_put(ids, "a")
    put(ids, "plain")
    (task,), (plain,) = lease(ids, judged=True).items, lease(ids).items
    group_set(ids, task, ["ep_1", "ep_2"], [{"reward": 1.0}, {"reward": 0.0}])
    with pytest.raises(Conflict, match="are decided: no episode is added"):
        group_set(ids, task, ["ep_1", "ep_2", "ep_3"])
    assert len(QueuedTask.objects.get(task_id=task.task_id).outputs) == 2
    assert group_set(ids, task, []).outputs is None, "played anew"
    with pytest.raises(InvalidRequest, match="'plain' is not judged"):
        group_set(ids, plain, ["ep_1"])


def test_what_no_other_try_can_mend_has_failed_at_once(ids) -> None:
    judged_put(ids, "a", tries=3)
    (task,) = lease(ids, judged=True).items
    done = queue.task_finish(
        **ids, task_id=task.task_id, lease=task.lease, error="half of it is over", final=True
    )
    assert (done.state, done.error, done.try_number) == ("failed", "half of it is over", 1)


def test_an_erased_episode_fails_its_own_decided_group_and_no_other(ids, session) -> None:
    judged_put(ids, "a", "b")
    quoting, other = lease(ids, 16, judged=True).items
    for number, task in enumerate((quoting, other)):
        group_set(ids, task, [f"ep_{number}"], [{"reward": 1.0, "metadata": {"read": "quoted"}}])
    queue.task_errors_erase(session=session, task=f"a{queue.GROUP_MARK}01234567", episode_id="ep_0")
    failed, kept = QueuedTask.objects.order_by("id")
    assert (failed.state, failed.outputs, failed.row, failed.error) == (
        "failed", None, None, "An episode of it was erased."
    )  # fmt: skip
    assert (kept.state, kept.outputs[0]["reward"]) == ("running", 1.0)
    with pytest.raises(StaleLease):
        queue.task_finish(**ids, task_id=quoting.task_id, lease=quoting.lease, error=None)
