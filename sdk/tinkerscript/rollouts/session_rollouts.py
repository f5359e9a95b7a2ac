"""session.rollouts() and session.evaluate(): an agent on many tasks, several attempts at each."""

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tinkerscript.connection.waiting import Wait
from tinkerscript.episodes.episode import Episode
from tinkerscript.episodes.episode_loop import EpisodeLoop
from tinkerscript.reports import Report
from tinkerscript.wire.config import SessionConfig

from .runner import Agent, Attempt, Runner, plan
from .step_log import StepLog
from .targets import ReportTo

log = logging.getLogger("tinkerscript")


class SessionRollouts(EpisodeLoop):
    """A session whose agent can be run on a list of tasks."""

    config: SessionConfig
    _logged: int | None = None  # how far in the record ``report_to`` has got

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
        cancelled: threading.Event | None = None,
    ) -> Report:
        """Run ``agent(task, episode)`` in ``workers`` threads, ``grpo_n`` attempts at each task.

        The agent returns a WorkflowOutput, an object or dict with the same fields, or a number; it may be a coroutine
        function. An attempt that raises is abandoned, counted and tried again ``retries`` times, so that its group can
        become full; it is never a reward of 0. Tasks that are not short texts are distinguished by their JSON, or by
        ``task_name(task)``. ``progress`` writes one line and the table of failures to stderr. Ctrl-C, or setting
        ``cancelled`` from elsewhere, abandons the open episodes.

        ``report_to``: "wandb", "mlflow", "tensorboard", "jsonl" (a file named by the session), the path of a
        ``.jsonl`` file, or a list of these. The metrics of each step done meanwhile are logged there as ``train/...``;
        the call then returns when every complete batch is trained, as after flush(). A tracker that fails is named in
        the log and left out; training goes on.

        Raises InvalidRequest, and what ends the session: SessionFailed, SessionEnded, ServerUnreachable.

        Example: ``session.rollouts(lambda task, episode: my_agent(task, *episode), ["3+4", "5+6"], epochs=10)``
        """
        size = self.config.grpo_n
        attempts = plan(tasks, attempts=size, epochs=epochs, retries=retries, task_name=task_name)
        groups = len(attempts) // size
        if groups < self.config.tasks_per_batch:
            log.warning(
                "%d groups come of these tasks, and a step needs tasks_per_batch=%d: they train nothing by themselves. "
                "Give more tasks or epochs, or start a session with tasks_per_batch=%d.",
                groups, self.config.tasks_per_batch, groups,
            )  # fmt: skip
        with self._step_log(report_to) as steps:
            report = self._run_all(
                agent, attempts, workers, eval=False, per_task=size, progress=progress, cancelled=cancelled
            )
            if steps is not None:
                self.flush()
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
        cancelled: threading.Event | None = None,
    ) -> Report:
        """As rollouts(), with episodes that are served and counted but never trained; ``attempts`` at each task.

        ``report_to`` gets mean reward, standard error and success rate as ``eval/...``, at the step of the policy.
        """
        todo = plan(tasks, attempts=attempts, epochs=1, retries=0, task_name=task_name)
        with self._step_log(report_to) as steps:
            step = self.status().policy_version if steps is not None else 0
            report = self._run_all(
                agent, todo, workers, eval=True, per_task=attempts, progress=progress, cancelled=cancelled
            )
            if steps is not None:
                steps.evaluation(report, step)
        return report

    @contextlib.contextmanager
    def _step_log(self, report_to: ReportTo) -> Iterator[StepLog | None]:
        """Steps are logged once, however many calls follow each other."""
        if report_to is None:
            yield None
            return
        steps = StepLog(self, report_to, cursor=self._logged)
        try:
            with steps:
                yield steps
        finally:
            self._logged = steps.cursor

    def _run_all(
        self,
        agent: Agent,
        attempts: "deque[Attempt]",
        workers: int,
        *,
        eval: bool,
        per_task: int,
        progress: bool,
        cancelled: threading.Event | None,
    ) -> Report:
        def begin(wait: Wait, task: str) -> Episode:
            return self.begin_waiting(wait, task=task, eval=eval)

        report = Report(wanted=len(attempts), attempts_per_task=per_task)
        runner = Runner(agent, begin, attempts, report, progress, cancelled or threading.Event())
        with self.planned_attempts():
            return runner.run(workers)
