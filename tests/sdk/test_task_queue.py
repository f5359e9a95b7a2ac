"""session.tasks.put(): what a row may be, and what is said of one that may not. The agent of a
worker by name.
"""

import json
import sys
import time

import pytest
from sdk.http_parts import error, reply

from support.waiting import wait_until
from tinkerscript import InvalidRequest, InvalidReward
from tinkerscript.rollouts import task_queue
from tinkerscript.rollouts.task_queue import TaskQueue
from tinkerscript.wire.tasks import LeasedTask, TaskCounts, TaskLeases, TaskView
from tinkerscript.worker import Worker, agent_load, judge_load


class Noted(TaskQueue):
    """Keeps what would be sent."""

    def __init__(self):
        super().__init__(None, attempts=4, groups=2)
        self.sent = []

    def put_page(self, body):
        self.sent.append(body)
        return TaskCounts(waiting=0, running=0, done=0, failed=0, workers=0)


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        ([], {}, "There are no rows"),
        ("abc", {}, "rows is one str"),
        ({"a": 1}, {}, "rows is one dict"),
        ([1, object()], {"task_name": str}, "Row 1 is not JSON"),
        ([float("nan")], {}, "Row 0 is not JSON"),
        (["a", "b", "a"], {}, "Row 2 is there twice: 'a'"),
        (["x" * 20_000], {}, "Row 0 has 20002 bytes of JSON; 16384 are allowed"),
        (["a"], {"attempts": 0}, "attempts must be"),
        (["a"], {"tries": 0}, "tries must be"),
        (["a"], {"task_name": lambda row: 3}, "The name of row 0 must be a text"),
    ],
)
def test_a_wrong_row_is_named_before_anything_is_sent(rows, options, words):
    queue = Noted()
    with pytest.raises(InvalidRequest, match=words):
        queue.put(rows, **options)
    assert queue.sent == []


def test_many_rows_are_sent_in_parts_with_the_attempts_of_a_group(monkeypatch):
    monkeypatch.setattr(task_queue, "ROWS_AT_ONCE", 2)
    queue = Noted()
    queue.put([{"q": n} for n in range(5)])
    assert [len(body.rows) for body in queue.sent] == [2, 2, 1]
    assert {body.attempts for body in queue.sent} == {4}
    queue.put(["a"], eval=True)
    assert (queue.sent[-1].attempts, queue.sent[-1].eval) == (1, True)


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("my_agent", "'my_agent' names no agent"),
        ("no_such_module_of_ours:run", "the module cannot be imported"),
        ("json:missing", "module json has no missing"),
        ("math:pi", "is a float, not a function"),
        ("os:getcwd", "cannot be called with a task and an episode"),
    ],
)
def test_an_agent_that_is_none_is_named(named, words):
    with pytest.raises(InvalidRequest, match=words):
        agent_load(named)


@pytest.mark.parametrize(
    ("named", "words"),
    [
        (
            "my_judge",
            "'my_judge' names no judge. Hint: Give module:function, such as my_judge:rank",
        ),
        ("json:missing", "module json has no missing"),
        ("math:pi", "is a float, not a function"),
        ("os:getcwd", "The judge cannot be called with a task and outputs"),
        ("tinkerscript:LlmJudge", "The judge cannot be called with a task and outputs"),
        ("asyncio:wait_for", "judge is a coroutine function"),
    ],
)
def test_a_judge_of_a_worker_that_is_none_is_named(named, words):
    with pytest.raises(InvalidRequest) as refused:
        judge_load(named)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 0}, "workers must be"),
        ({"workers": 257}, "256 are allowed"),
        ({"lease_s": 0}, "lease_s must be"),
        ({"attempt_timeout_s": 0}, "attempt_timeout_s must be"),
        ({"judge": "my_judge:rank"}, "judge must be a function"),
    ],
)
def test_an_option_of_a_worker_that_cannot_be_is_named(options, words):
    with pytest.raises(InvalidRequest, match=words):
        Worker(None, print, **options)


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        (["a"], {}, "1 groups come of these tasks, and a step needs tasks_per_batch=2"),
        (["a", "b"], {"attempts": 3}, "3 attempts at each task do not make full groups"),
        (["a"], {"attempts": 8}, ""),
        (["a", "b"], {}, ""),
        (["a"], {"eval": True}, ""),
    ],
)
def test_too_few_for_a_step_are_told_at_once(rows, options, words, caplog):
    Noted().put(rows, **options)
    assert words in caplog.text if words else caplog.text == ""


def test_waiting_for_workers_that_there_are_none_of_is_told(session, server, monkeypatch, caplog):
    monkeypatch.setattr(task_queue, "NO_WORKER_S", 0.0)
    server.fail(
        "GET .*/tasks",
        answer=reply(200, TaskCounts(waiting=2, running=0, done=0, failed=0, workers=0)),
    )
    server.fail(
        "GET .*/tasks",
        answer=reply(200, TaskCounts(waiting=0, running=0, done=2, failed=0, workers=0)),
    )
    assert session.tasks.wait().done == 2
    assert (
        "2 attempts wait, and no worker pulls them. Start workers: tinkerscript worker"
        in caplog.text
    )


@pytest.mark.parametrize("judged", [False, True])
def test_what_workers_earn_in_an_evaluation_is_recorded_and_what_failed_is_in_no_mean(
    session, server, monkeypatch, caplog, judged
):
    why = [{"name": "fails", "error": "KeyError: 'q'"}]
    counts = TaskCounts(waiting=0, running=0, done=0, failed=1, workers=0, failures=why)

    def play(queue, body):
        for name in [row.name for row in body.rows if row.name != "fails"] * body.attempts:
            session.begin_episode(name + " #1" if body.judged else name, eval=body.eval)
            session.end_episode({"reward": len(name), "reward_parts": {"length": len(name)}})
        session.begin_episode("a #1" if body.judged else "a")
        session.end_episode(100.0)  # of a training that goes on

    monkeypatch.setattr(TaskQueue, "put_page", play)
    monkeypatch.setattr(TaskQueue, "counts", lambda queue: counts)
    session.begin_episode("a", eval=True)
    session.end_episode(9.0)  # of an earlier evaluation
    report = session.tasks.evaluate(
        ["a", "bbb", "fails"], attempts=2, name="held out", judged=judged
    )
    assert (report.by_task, report.wanted, len(report.failures)) == ({"a": 1.0, "bbb": 3.0}, 6, 2)
    (event,) = [event.data for event in server.record if event.kind == "evaluation"]
    assert (event["name"], event["reward_mean"], event["failed"]) == ("held out", 2.0, 2)
    assert (event["by_task"]["bbb"]["episodes"], event["metrics"]) == (2, {"reward/length": 2.0})
    assert "2 x RuntimeError: KeyError: 'q'   (task fails)" in caplog.text


def test_a_worker_renews_the_leases_that_it_holds(session, server):
    task = LeasedTask(
        task_id="tsk_1", lease="tlk_1", name="a", row={}, eval=False, try_number=1, tries=1
    )
    server.fail("POST .*/lease", answer=reply(200, TaskLeases(items=[task], lost=[])))
    server.fail("POST .*/lease", times=99, answer=reply(200, TaskLeases(items=[], lost=[])))
    view = TaskView(task_id="tsk_1", name="a", state="running", try_number=1, tries=1)
    server.fail("POST .*/tasks/tsk_1/.*", times=9, answer=reply(200, view))
    none = TaskCounts(waiting=0, running=0, done=1, failed=0, workers=0)
    server.fail("GET .*/tasks", times=9, answer=reply(200, none))

    def agent(row, episode):
        wait_until(lambda: len(server.seen("POST .*/lease")) >= 3, 25)
        return 1.0

    Worker(session, agent, until_empty=True, lease_s=1.0).run()
    asked = [json.loads(request.body)["held"] for request in server.seen("POST .*/lease")]
    assert asked[:3] == [[], ["tlk_1"], ["tlk_1"]]


def limits_of(said):
    """Short ones for what hangs alone: a busy machine must not fail the others by them."""
    return {"lease_s": 1.0, "attempt_timeout_s": 1.0} if said.startswith("WaitTimeout") else {}


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        (
            lambda row, episode: None,
            "InvalidReward: None (did the agent return nothing?) is no workflow output.",
        ),
        (lambda row, episode: "a text", "InvalidReward: str is no workflow output."),
        (lambda row, episode: row["missing"], "KeyError: 'missing'"),
        (lambda row, episode: sys.exit("no row"), "SystemExit: no row"),
        pytest.param(
            lambda row, episode: time.sleep(30),
            "WaitTimeout: The agent did not return in time.",
            marks=pytest.mark.system,
        ),
    ],
)
def test_an_attempt_of_a_worker_that_fails_or_hangs_is_told_to_the_server(
    session, server, agent, said
):
    task = LeasedTask(
        task_id="tsk_1", lease="tlk_1", name="a", row={}, eval=False, try_number=1, tries=1
    )
    none = TaskCounts(waiting=0, running=0, done=0, failed=1, workers=0)
    view = TaskView(task_id="tsk_1", name="a", state="running", try_number=1, tries=1)
    server.fail("POST .*/lease", answer=reply(200, TaskLeases(items=[task], lost=[])))
    server.fail("POST .*/lease", times=99, answer=reply(200, TaskLeases(items=[], lost=[])))
    server.fail("POST .*/tasks/tsk_1/.*", times=9, answer=reply(200, view))
    server.fail("GET .*/tasks", times=9, answer=reply(200, none))
    worker = Worker(session, agent, until_empty=True, **limits_of(said))
    worker.run()
    wait_until(lambda: server.seen("POST .*/finish"), 25)
    (finished,) = server.seen("POST .*/finish")
    assert json.loads(finished.body)["error"].startswith(said)
    (episode,) = server.episodes.values()
    assert (episode.state, episode.reward) == ("abandoned", None)
    assert worker.done == 0


@pytest.mark.parametrize(
    ("agent", "judge", "said"),
    [
        pytest.param(
            lambda row, episode: "a",
            lambda row, outputs: time.sleep(30),
            "WaitTimeout: The judge had not returned",
            marks=pytest.mark.system,
        ),
        (
            lambda row, episode: "a",
            lambda row, outputs: [1.0],
            "JudgeFailed: The judge returned 1 outputs for 2",
        ),
        (
            lambda row, episode: row["missing"],
            lambda row, outputs: [0.0, 1.0],
            "KeyError: 'missing' (4)",
        ),
        (
            lambda row, episode: None,
            lambda row, outputs: [0.0, 1.0],
            "InvalidRequest: The agent returned nothing",
        ),
        pytest.param(
            lambda row, episode: time.sleep(30),
            lambda row, outputs: [0.0, 1.0],
            "WaitTimeout: The agent had not",
            marks=pytest.mark.system,
        ),
    ],
)
def test_a_group_whose_agent_or_judge_fails_or_hangs_is_told_to_the_server_and_none_of_it_ends(
    session, server, agent, judge, said
):
    task = LeasedTask(
        task_id="tsk_1",
        lease="tlk_1",
        name="a",
        row={},
        eval=False,
        try_number=1,
        tries=1,
        attempts=2,
        judged=True,
    )
    counts = {"waiting": 3, "running": 0, "done": 0, "failed": 2, "workers": 0}
    view = TaskView(task_id="tsk_1", name="a", state="running", try_number=1, tries=1)
    server.fail("POST .*/lease", answer=reply(200, TaskLeases(items=[task], lost=[])))
    server.fail(
        "POST .*/lease",
        times=99,
        answer=reply(200, TaskLeases(items=[], lost=[], others_waiting=3)),
    )
    server.fail("POST .*/tasks/tsk_1/.*", times=99, answer=reply(200, view))
    server.fail("GET .*/tasks", times=9, answer=reply(200, TaskCounts(**counts)))
    worker = Worker(session, agent, judge=judge, until_empty=True, **limits_of(said))
    worker.run()
    wait_until(lambda: server.seen("POST .*/finish"), 25)
    (finished,) = server.seen("POST .*/finish")
    assert json.loads(finished.body)["error"].startswith(said)
    wait_until(
        lambda: all(episode.state == "abandoned" for episode in server.episodes.values()), 25
    )
    assert not server.ended and not any(
        json.loads(r.body).get("outputs") for r in server.seen("POST .*/group")
    )
    assert json.loads(server.seen("POST .*/lease")[0].body)["judged"] is True


def judged_task(server, **fields):
    """One for a worker, and none after it."""
    names = {"task_id": "tsk_1", "lease": "tlk_1", "name": "a", "row": {}, "eval": False}
    task = LeasedTask(**names, try_number=1, tries=3, attempts=2, judged=True, **fields)
    server.fail("POST .*/lease", answer=reply(200, TaskLeases(items=[task], lost=[])))
    server.fail("POST .*/lease", times=99, answer=reply(200, TaskLeases(items=[], lost=[])))
    server.fail(
        "GET .*/tasks",
        times=9,
        answer=reply(200, TaskCounts(waiting=0, running=0, done=0, failed=2, workers=0)),
    )
    return reply(200, TaskView(task_id="tsk_1", name="a", state="running", try_number=1, tries=3))


def finished_by(server, session, agent):
    """What a worker of two attempts at once says of the task in the end."""
    Worker(session, agent, judge=lambda row, outputs: [0.0, 1.0], until_empty=True, workers=2).run()
    wait_until(lambda: server.seen("POST .*/finish"), 25)
    assert json.loads(server.seen("POST .*/lease")[0].body)["count"] == 2, "attempts, not groups"
    return json.loads(server.seen("POST .*/finish")[0].body)


def test_an_agent_that_ends_its_episode_itself_is_played_no_second_time(session, server):
    server.fail("POST .*/tasks/tsk_1/.*", times=99, answer=judged_task(server))
    finished = finished_by(server, session, lambda row, episode: episode.end(1.0))
    assert finished["final"] is True and "ended its episode" in finished["error"]
    assert len(server.episodes) == 2, "one for each attempt"


def test_what_the_worker_before_left_half_over_is_not_tried_again(session, server):
    over, still = session.begin_episode(), session.begin_episode()  # the first is superseded
    outputs = [{"reward": 1.0}, {"reward": 0.0}]
    view = judged_task(server, episode_ids=[over.id, still.id], outputs=outputs)
    server.fail("POST .*/tasks/tsk_1/.*", times=99, answer=view)
    finished = finished_by(server, session, lambda row, episode: "a")
    assert finished["final"] is True and finished["error"].startswith(
        "1 of its 2 episodes were over"
    )


def test_episodes_whose_rewards_another_worker_may_have_are_left_to_it(session, server):
    view = judged_task(server)
    server.fail("POST .*/tasks/tsk_1/group", times=2, answer=view)
    server.fail("POST .*/tasks/tsk_1/group", answer=error(409, "stale_lease"))
    Worker(
        session, lambda row, episode: "a", judge=lambda row, outputs: [0.0, 1.0], until_empty=True
    ).run()
    assert [episode.state for episode in server.episodes.values()] == [
        "open",
        "open",
    ] and not server.ended
    assert not server.seen("POST .*/finish")


def test_what_a_judge_reads_is_no_output_of_a_worker(session):
    session.begin_episode()
    for said in ("a text", [{"role": "user", "content": "a"}]):
        with pytest.raises(InvalidReward) as refused:
            session.end_episode(said)
        assert (
            "and a worker with --judge, for tasks that were put with judged=True"
            in refused.value.hint
        )
