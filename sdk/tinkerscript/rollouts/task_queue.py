"""session.tasks: tasks that workers on any number of machines pull."""

import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from tinkerscript.arguments import count, deadline_after, function_or_none, wrong
from tinkerscript.connection.session_api import SessionApi
from tinkerscript.errors import InvalidRequest, WaitTimeout
from tinkerscript.reports import Failure, Report
from tinkerscript.wire.episodes import EpisodeState, WorkflowOutput
from tinkerscript.wire.tasks import (
    GROUP_MARK,
    MAX_GROUP_NAME,
    MAX_ROW_BYTES,
    LeasedTask,
    TaskCounts,
    TaskEpisode,
    TaskFinish,
    TaskGroup,
    TaskLeases,
    TaskRow,
    TasksLease,
    TasksPut,
    TaskView,
)

from .attempts import tasks_named
from .evaluating import episodes_since, evaluation_name_check, evaluation_record

ROWS_AT_ONCE, BYTES_AT_ONCE = 500, 1 << 20  # of one request
POLL_INTERVAL_S = 1.0
NO_WORKER_S = 30.0
START_WORKERS = "Start workers: tinkerscript worker my_agent:run --session ID."
log = logging.getLogger("tinkerscript")


class TaskQueue:
    """The tasks of a session that wait for a worker: ``tinkerscript worker my_agent:run --session
    ID``.

    Example: ``session.tasks.put(rows); session.tasks.wait(timeout_s=3600)``
    """

    def __init__(self, session: SessionApi, *, attempts: int, groups: int) -> None:
        """``attempts`` make a full group, ``groups`` of them a step."""
        self._session = session
        self._attempts, self._groups = attempts, groups

    def put(
        self,
        rows: Iterable[Any],
        *,
        attempts: int | None = None,
        eval: bool = False,
        tries: int = 3,
        task_name: Callable[[Any], str] | None = None,
        judged: bool = False,
    ) -> TaskCounts:
        """Add ``attempts`` at each row (``grpo_n``; 1 with ``eval``) at the end of the queue.

        A row is what the agent is given: JSON of at most 16 KiB. Its name is as in rollouts(). An
        attempt whose agent fails or whose worker is lost is handed out ``tries`` times, then it has
        failed, with its error.

        ``judged``: one worker, ``tinkerscript worker my_agent:run --judge my_judge:rank``, plays
        all attempts at a row and its judge rewards them together, as ``rollouts(judge=...)`` does.
        A try is then one of all of them.

        Raises InvalidRequest for a row that is not JSON, for none, for one that is there twice;
        Conflict for a task that still waits or runs, and when the session has ended. Many rows are
        sent in parts, each all or none.
        """
        if attempts is None:
            attempts = 1 if eval else self._attempts
        bodies = _bodies(
            rows, attempts=attempts, eval=eval, tries=tries, task_name=task_name, judged=judged
        )
        if not eval:
            self._warn_if_too_few(sum(len(body.rows) for body in bodies), attempts)
        return self._put(bodies)

    def evaluate(
        self,
        rows: Iterable[Any],
        *,
        attempts: int = 1,
        tries: int = 3,
        task_name: Callable[[Any], str] | None = None,
        judged: bool = False,
        name: str = "eval",
        timeout_s: float = 86_400.0,
    ) -> Report:
        """As session.evaluate(), played by workers: ``attempts`` episodes of each row that are
        never trained.

        Returns when no attempt waits or runs, those among them that were put before. What was
        earned is recorded under ``name`` at the step of the policy; an attempt that has failed on
        every worker is in ``failures`` and in no mean. Raises as put() and wait() do.
        """
        evaluation_name_check(name)
        bodies = _bodies(
            rows, attempts=attempts, eval=True, tries=tries, task_name=task_name, judged=judged
        )
        # Episodes of a judged task have the beginning of its name, and something of their group's
        # own.
        names = {
            row.name[:MAX_GROUP_NAME] if judged else row.name: row.name
            for body in bodies
            for row in body.rows
        }
        report = Report(wanted=attempts * len(names), attempts_per_task=attempts)
        started, latest = time.monotonic(), next(iter(self._session.episode_page(None).items), None)
        self._put(bodies)
        counts = self.wait(timeout_s)
        for episode in episodes_since(self._session, latest):
            task = (episode.task or "").rpartition(GROUP_MARK)[0] if judged else episode.task
            if episode.eval and episode.state is EpisodeState.COMPLETED and task in names:
                report.add(names[task], episode)
        errors = {failure.name: failure.error for failure in counts.failures}
        for task in names.values():
            why = RuntimeError(errors.get(task, "no worker could end it"))
            report.failures += [Failure(task, why)] * (attempts - len(report.rewards.get(task, [])))
        report.seconds = time.monotonic() - started
        if report.failures:
            log.warning("%s", report.table())
        evaluation_record(self._session, report, name)
        return report

    def wait(self, timeout_s: float = 86_400.0) -> TaskCounts:
        """Wait until no attempt waits or runs. Raises WaitTimeout with the counts.

        The log has it when no worker has pulled for half a minute.
        """
        deadline = deadline_after(timeout_s)
        notice = time.monotonic() + NO_WORKER_S
        while True:
            now = self.counts()
            if now.waiting + now.running == 0:
                return now
            if now.workers:
                notice = time.monotonic() + NO_WORKER_S
            elif time.monotonic() >= notice:
                notice = math.inf
                log.warning(
                    "%d attempts wait, and no worker pulls them. %s", now.waiting, _advice(now)
                )
            if time.monotonic() >= deadline:
                raise WaitTimeout(
                    f"After {timeout_s:g} s {now.waiting} attempts wait and {now.running} run "
                    f"({now.workers} workers).",
                    hint=_advice(now),
                )
            self._session.pause(POLL_INTERVAL_S)

    def counts(self) -> TaskCounts:
        """How many attempts wait, run, are done and have failed, and how many workers there are."""
        return self._session.read("/tasks", TaskCounts)

    def put_page(self, body: TasksPut) -> TaskCounts:
        """Add these tasks, all or none. Raises Conflict for one that is there already."""
        return self._session.send("POST", "/tasks", TaskCounts, body=body)

    def lease(self, body: TasksLease) -> TaskLeases:
        """Keep the leases that are held and take more. Raises Conflict when the session has
        ended.
        """
        return self._session.send("POST", "/tasks/lease", TaskLeases, body=body)

    def episode_set(self, task: LeasedTask, episode_id: str) -> TaskView:
        """Say in which episode a task is played. Raises StaleLease when another worker has it."""
        return self._told(task, "episode", TaskEpisode(lease=task.lease, episode_id=episode_id))

    def group_set(
        self, task: LeasedTask, episode_ids: list[str], outputs: list[WorkflowOutput] | None = None
    ) -> TaskView:
        """Say in which episodes a judged task is played, and what its judge made of them, before
        they are ended.

        Raises StaleLease when another worker has it.
        """
        body = TaskGroup(lease=task.lease, episode_ids=episode_ids, outputs=outputs)
        return self._told(task, "group", body)

    def finish(
        self, task: LeasedTask, error: str | None = None, *, final: bool = False
    ) -> TaskView:
        """It is done, or why not; ``final``: it is not tried again. Raises StaleLease when another
        worker has it.
        """
        said = {} if error is None else {"error": error[:500]} | ({"final": True} if final else {})
        body = TaskFinish.model_validate({"lease": task.lease, **said})
        return self._told(task, "finish", body)

    def _told(self, task: LeasedTask, what: str, body: BaseModel) -> TaskView:
        return self._session.send("POST", f"/tasks/{task.task_id}/{what}", TaskView, body=body)

    def _put(self, bodies: list[TasksPut]) -> TaskCounts:
        return [self.put_page(body) for body in bodies][-1]

    def _warn_if_too_few(self, rows: int, attempts: int) -> None:
        if attempts % self._attempts:
            log.warning(
                "%d attempts at each task do not make full groups, which train: grpo_n=%d is a "
                "group. Put attempts=%d, or start a session with grpo_n=%d.",
                attempts,
                self._attempts,
                self._attempts,
                max(2, attempts),
            )
            return
        groups = rows * (attempts // self._attempts)
        if groups < self._groups:
            log.warning(
                "%d groups come of these tasks, and a step needs tasks_per_batch=%d: they train "
                "nothing by themselves. "
                "Put more tasks, or start a session with tasks_per_batch=%d.",
                groups,
                self._groups,
                groups,
            )


def _advice(counts: TaskCounts) -> str:
    if not counts.waiting_judged:
        return START_WORKERS
    return (
        f"{START_WORKERS} Give one --judge my_judge:rank: {counts.waiting_judged} attempts that "
        "wait are judged."
    )


def _bodies(
    rows: Iterable[Any],
    *,
    attempts: int,
    eval: bool,
    tries: int,
    task_name: Callable[[Any], str] | None,
    judged: bool,
) -> list[TasksPut]:
    """The requests that put them. Raises InvalidRequest."""
    function_or_none("task_name", task_name)
    if not isinstance(judged, bool):
        raise wrong("judged", judged, "True or False; a judge is given to the workers")
    attempts, tries = count("attempts", attempts, least=1), count("tries", tries, least=1)
    return [
        TasksPut(
            rows=part,
            attempts=attempts,
            eval=eval,
            tries=tries,
            **({"judged": True} if judged else {}),
        )
        for part in _parts(rows, task_name)
    ]


def _parts(rows: Iterable[Any], task_name: Callable[[Any], str] | None) -> list[list[TaskRow]]:
    """The rows as requests can carry them. Raises InvalidRequest."""
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise InvalidRequest(
            f"rows is one {type(rows).__name__}.", hint="Give a list of rows: [row, ...]."
        )
    parts: list[list[TaskRow]] = []
    names: set[str] = set()
    room = 0
    sizes: list[int] = []

    def sized() -> Iterator[Any]:  # before it is named
        for at, row in enumerate(rows):
            sizes.append(_size(at, row))
            yield row

    for at, (row, named) in enumerate(tasks_named(sized(), task_name)):
        size = sizes[at]
        if not isinstance(named, str) or not 0 < len(named) <= 512:
            raise InvalidRequest(
                f"The name of row {at} must be a text of 1 to 512 characters, not {named!r:.80}."
            )
        if named in names:
            raise InvalidRequest(
                f"Row {at} is there twice: {named!r:.80}.", hint="More attempts at it: attempts=..."
            )
        names.add(named)
        if not parts or len(parts[-1]) == ROWS_AT_ONCE or room < size:
            parts.append([])
            room = BYTES_AT_ONCE
        room -= size
        parts[-1].append(TaskRow(name=named, row=row))
    if not parts:
        raise InvalidRequest(
            "There are no rows.", hint="Give a list of them, or look at the split that was read."
        )
    return parts


def _size(at: int, row: Any) -> int:
    try:
        size = len(json.dumps(row, allow_nan=False))
    except (TypeError, ValueError) as failure:
        raise InvalidRequest(
            f"Row {at} is not JSON: {failure}",
            hint="Use strings, numbers, booleans, lists and dicts only.",
        ) from failure
    if size > MAX_ROW_BYTES:
        raise InvalidRequest(f"Row {at} has {size} bytes of JSON; {MAX_ROW_BYTES} are allowed.")
    return size + 600  # with its name
