"""session.tasks.put(): what a row may be, and what is said of one that may not. The agent of a worker by name."""

import pytest

from tinkerscript import InvalidRequest
from tinkerscript.rollouts import task_queue
from tinkerscript.rollouts.task_queue import TaskQueue
from tinkerscript.wire.queue.tasks import TaskCounts
from tinkerscript.worker import Worker, agent_load


class Noted(TaskQueue):
    """Keeps what would be sent."""

    def __init__(self):
        self.sent, self._attempts = [], 4

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
    ("options", "words"),
    [({"workers": 0}, "workers must be"), ({"workers": 257}, "256 are allowed"), ({"lease_s": 0}, "lease_s must be")],
)
def test_an_option_of_a_worker_that_cannot_be_is_named(options, words):
    with pytest.raises(InvalidRequest, match=words):
        Worker(None, print, **options)
