"""session.rollouts() and session.evaluate(): an agent on many tasks, several attempts at each."""

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tinkerscript.arguments import seconds
from tinkerscript.connection.waiting import Wait
from tinkerscript.episodes.episode import Episode
from tinkerscript.episodes.episode_loop import EpisodeLoop
from tinkerscript.judge import Judge
from tinkerscript.reports import Evaluated, Report
from tinkerscript.wire.config import SessionConfig

from .attempts import Attempt, plan
from .evaluating import Evaluations, evaluation_name_check, evaluation_plan, evaluation_record
from .judging import JudgedGroups
from .runner import Agent, Runner
from .step_log import StepLog
from .targets import ReportTo, targets_check
from .task_queue import TaskQueue

log = logging.getLogger("tinkerscript")


@dataclass(frozen=True)
class _Play:
    """How an agent is run, whatever its attempts: arguments of rollouts() and evaluate()."""

    agent: Agent
    workers: int
    progress: bool
    cancelled: threading.Event
    judge: Judge | None
    attempt_timeout_s: float | None
    task_name: Callable[[Any], str] | None

    def attempts(
        self, tasks: Iterable[Any], *, each: int, epochs: int = 1, retries: int = 0
    ) -> "deque[Attempt]":
        """As plan(), ``each`` attempts at a task."""
        return plan(
            tasks,
            attempts=each,
            epochs=epochs,
            retries=retries,
            task_name=self.task_name,
            judged=self.judge is not None,
        )


class SessionRollouts(EpisodeLoop):
    """A session whose agent can be run on a list of tasks."""

    config: SessionConfig
    _told_tail = False
    _logged: int | None = None  # how far in the record ``report_to`` has got

    @property
    def tasks(self) -> TaskQueue:
        """The queue that workers pull from: ``session.tasks.put(rows)``."""
        config = self.config
        return TaskQueue(self, attempts=config.grpo_n, groups=config.tasks_per_batch)

    def rollouts(
        self,
        agent: Agent,
        tasks: Iterable[Any],
        *,
        workers: int = 32,
        epochs: int = 1,
        retries: int = 1,
        task_name: Callable[[Any], str] | None = None,
        progress: bool = True,
        report_to: ReportTo = None,
        evaluate_every: int | None = None,
        eval_tasks: Iterable[Any] | Mapping[str, Iterable[Any]] | None = None,
        eval_attempts: int = 1,
        best_metric: str = "reward_mean",
        patience: int | None = None,
        keep_best: bool = False,
        judge: Judge | None = None,
        attempt_timeout_s: float | None = None,
        cancelled: threading.Event | None = None,
    ) -> Report:
        """Run ``agent(task, episode)`` in ``workers`` threads, ``grpo_n`` attempts at each task.

        The agent returns a WorkflowOutput, an object or dict with the same fields, or a number; it
        may be a coroutine function. An attempt that raises is abandoned, counted and tried again
        ``retries`` times, so that its group can become full; it is never a reward of 0. Tasks that
        are not short texts are distinguished by their JSON, or by ``task_name(task)``. ``progress``
        writes one line and the table of failures to stderr. Ctrl-C, or setting ``cancelled`` from
        elsewhere, abandons the open episodes.

        ``attempt_timeout_s``: how long an agent may take (``episode_timeout_s`` of the session,
        when its episode is over anyway). One that has not returned then is a failed attempt, and
        another thread goes on in its place. A ``judge`` has as long; then its whole group is
        abandoned and counted.

        ``report_to``: "wandb", "mlflow", "tensorboard", "jsonl" (a file named by the session), the
        path of a ``.jsonl`` file, or a list of these. The metrics of each step done meanwhile are
        logged there as ``train/...``; the call then returns when every complete batch is trained,
        as after flush(). A tracker that fails is named in the log and left out; training goes on.

        ``evaluate_every``: before the first step and after each so many steps' worth of attempts,
        the complete batches are trained, then the policy plays ``eval_tasks`` (a list, or a dict of
        lists by name), ``eval_attempts`` times each; what it earns is recorded at its step and
        drawn in the console. ``best_metric`` ("reward_mean" or "success_rate", of another than the
        first set as "name/reward_mean") says which policy is ``report.best``; ``patience``
        evaluations in a row without a better one end the call. ``keep_best`` makes a ``model``
        checkpoint of each best policy and pins the last:
        ``session.download_checkpoint(report.best.checkpoint_id, path)``.

        ``judge(task, outputs)`` rewards the ``grpo_n`` attempts at a task together: the agent
        returns what the judge reads, and the judge a reward or WorkflowOutput for each, in their
        order; LlmJudge asks a model. Episodes stay open until their group is complete. Where the
        judge fails or hangs, or an attempt does and has no retry left, the whole group is abandoned
        and counted. ``eval_tasks`` are judged too, in groups of ``eval_attempts``.

        Raises InvalidRequest, and what ends the session: SessionFailed, SessionEnded,
        ServerUnreachable.

        Example: ``session.rollouts(lambda task, episode: my_agent(task, *episode), ["3+4", "5+6"],
        epochs=10)``
        """
        size = self.config.grpo_n
        evaluation = evaluation_plan(
            every=evaluate_every,
            tasks=eval_tasks,
            attempts=eval_attempts,
            patience=patience,
            keep_best=keep_best,
            best_metric=best_metric,
        )
        over = cancelled or threading.Event()
        how = _Play(agent, workers, progress, over, judge, attempt_timeout_s, task_name)
        attempts = how.attempts(tasks, each=size, epochs=epochs, retries=retries)
        self._warn_of_tail(len(attempts) // size)
        report = Report(wanted=len(attempts), attempts_per_task=size)
        with self._step_log(report_to) as steps:
            if evaluation is None:
                self._play(how, attempts, report, eval=False)
                if steps is not None:
                    self.flush()
                return report

            def evaluate(name: str, some: list[Any]) -> Evaluated:
                todo = how.attempts(some, each=eval_attempts)
                return self._evaluated(how, todo, eval_attempts, name, steps)

            evaluations = Evaluations(self, evaluation, report, evaluate)
            evaluations.run()
            while attempts and not report.stopped_early and not over.is_set():
                part = evaluation.every * self.config.tasks_per_batch * size
                some = deque(attempts.popleft() for _ in range(min(part, len(attempts))))
                self._play(how, some, report, eval=False)
                self.flush()
                evaluations.run()
        return report

    def evaluate(
        self,
        agent: Agent,
        tasks: Iterable[Any],
        *,
        workers: int = 32,
        attempts: int = 1,
        task_name: Callable[[Any], str] | None = None,
        progress: bool = True,
        report_to: ReportTo = None,
        name: str = "eval",
        judge: Judge | None = None,
        attempt_timeout_s: float | None = None,
        cancelled: threading.Event | None = None,
    ) -> Report:
        """As rollouts(), with episodes that are served and counted but never trained; ``attempts``
        at each task.

        What they earned is recorded under ``name`` at the step of the policy, and drawn in the
        console; ``report_to`` gets it as ``eval/...``, of another name as ``eval/<name>/...``.
        ``judge`` rewards the attempts at a task; ``attempt_timeout_s`` as in rollouts().
        """
        evaluation_name_check(name)
        over = cancelled or threading.Event()
        how = _Play(agent, workers, progress, over, judge, attempt_timeout_s, task_name)
        todo = how.attempts(tasks, each=attempts)
        with self._step_log(report_to) as steps:
            return self._evaluated(how, todo, attempts, name, steps).report

    @contextlib.contextmanager
    def _step_log(self, report_to: ReportTo) -> Iterator[StepLog | None]:
        """Steps are logged once, however many calls follow each other."""
        if not targets_check(report_to):
            yield None
            return
        steps = StepLog(self, report_to, cursor=self._logged)
        try:
            with steps:
                yield steps
        finally:
            self._logged = steps.cursor

    def _play(self, how: _Play, attempts: "deque[Attempt]", report: Report, *, eval: bool) -> None:
        limit_s = self.config.episode_timeout_s
        if how.attempt_timeout_s is not None:
            limit_s = seconds("attempt_timeout_s", how.attempt_timeout_s, least=1.0)

        def begin(wait: Wait, task: str) -> Episode:
            return self.begin_waiting(wait, task=task, eval=eval)

        size = report.attempts_per_task
        judging = None if how.judge is None else JudgedGroups(how.judge, size)
        runner = Runner(
            how.agent,
            begin,
            attempts,
            report,
            progress=how.progress,
            cancelled=how.cancelled,
            judging=judging,
            put_aside=self.put_aside,
            attempt_timeout_s=limit_s,
        )
        with self.planned_attempts():
            runner.run(how.workers)

    def _warn_of_tail(self, groups: int) -> None:
        """Say how many groups fill no batch; where they follow whole batches once, as a later call
        may fill it.
        """
        steps, left = divmod(groups, self.config.tasks_per_batch)
        if not steps:
            log.warning(
                "%d groups come of these tasks, and a step needs tasks_per_batch=%d: they train "
                "nothing by themselves. "
                "Give more tasks or epochs, or start a session with tasks_per_batch=%d.",
                groups,
                self.config.tasks_per_batch,
                groups,
            )
        elif left and not self._told_tail:
            self._told_tail = True
            log.warning(
                "%d groups come of these tasks: %d steps of tasks_per_batch=%d, and %d groups (%d "
                "attempts) are left. "
                "They wait for those of a later call, and are not trained without one.",
                groups,
                steps,
                self.config.tasks_per_batch,
                left,
                left * self.config.grpo_n,
            )

    def _evaluated(
        self,
        how: _Play,
        todo: "deque[Attempt]",
        each: int,
        name: str,
        steps: StepLog | None,
    ) -> Evaluated:
        """Play them and keep what was measured where the console and the trackers show it."""
        report = Report(wanted=len(todo), attempts_per_task=each)
        self._play(how, todo, report, eval=True)
        step = evaluation_record(self, report, name)
        if step is None:
            return Evaluated(self.status().policy_version, name, report)
        if steps is not None:
            steps.evaluation(report, step, name)
        return Evaluated(step, name, report)
