"""Evaluation as a part of training: what is played when, which policy was the best, when there is
no use going on; and what an evaluation measured, put into the session's record, where the console
and every program find it.
"""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tinkerscript.arguments import count, deadline_after, wrong
from tinkerscript.connection.session_api import SessionApi, pages
from tinkerscript.downloads import checkpoints
from tinkerscript.errors import InvalidRequest, TinkerScriptError
from tinkerscript.reports import Best, Evaluated, Report
from tinkerscript.sessions.session import Session
from tinkerscript.wire.checkpoints import CheckpointKind
from tinkerscript.wire.episodes import EpisodeView
from tinkerscript.wire.events import MAX_METRICS, MAX_TASKS, Evaluation, TaskScore

MEASURES = ("reward_mean", "success_rate")  # of which more is better
CHECKPOINT_TIMEOUT_S = 1800.0
log = logging.getLogger("tinkerscript")


@dataclass(frozen=True)
class EvaluationPlan:
    """Each of ``sets`` is played ``every`` so many steps; ``measure`` of the set ``chosen`` says
    which one is best.
    """

    every: int
    sets: Mapping[str, list[Any]]
    attempts: int
    patience: int | None
    keep_best: bool
    chosen: str
    measure: str


def evaluation_plan(
    *, every: Any, tasks: Any, attempts: Any, patience: Any, keep_best: Any, best_metric: Any
) -> EvaluationPlan | None:
    """What rollouts() was asked for, checked; None without ``evaluate_every``. Raises
    InvalidRequest.
    """
    if every is None:
        alone = {"eval_tasks": tasks, "patience": patience, "keep_best": keep_best or None}
        if given := [name for name, value in alone.items() if value is not None]:
            raise InvalidRequest(
                f"{given[0]} needs evaluate_every.", hint="Give the number of steps between two."
            )
        return None
    sets = {name: _listed(name, some) for name, some in _sets(tasks).items()}
    if not isinstance(keep_best, bool):
        raise wrong("keep_best", keep_best, "True or False")
    chosen, measure = _metric(best_metric, list(sets))
    return EvaluationPlan(
        every=count("evaluate_every", every, least=1),
        sets=sets,
        attempts=count("eval_attempts", attempts, least=1),
        patience=None if patience is None else count("patience", patience, least=1),
        keep_best=keep_best,
        chosen=chosen,
        measure=measure,
    )


def _sets(tasks: Any) -> Mapping[Any, Any]:
    if isinstance(tasks, Mapping):
        if not tasks or not all(
            isinstance(name, str) and 0 < len(name) <= 60 and "/" not in name for name in tasks
        ):
            raise wrong(
                "eval_tasks",
                tasks,
                "a list of tasks, or a dict from names (60 characters, no /) to lists",
            )
        return tasks
    return {"eval": tasks}


def _listed(name: str, tasks: Any) -> list[Any]:
    if isinstance(tasks, str | bytes) or not isinstance(tasks, Iterable):
        raise wrong(
            "eval_tasks" if name == "eval" else f"eval_tasks[{name!r}]", tasks, "a list of tasks"
        )
    listed = list(tasks)
    if not listed:
        raise InvalidRequest(
            f"There are no tasks to evaluate in {name!r}.", hint="Look at the split that was read."
        )
    return listed


def _metric(named: Any, sets: list[str]) -> tuple[str, str]:
    known = [f"{name}/{measure}" for name in sets for measure in MEASURES]
    full = named if isinstance(named, str) and "/" in named else f"{sets[0]}/{named}"
    if full not in known:
        raise wrong("best_metric", named, f"one of {', '.join([*MEASURES, *known])}")
    chosen, _, measure = full.partition("/")
    return chosen, measure


class Evaluations:
    """Plays the sets of ``plan`` with ``evaluate(name, tasks)`` and notes in ``report`` what is
    best so far.
    """

    def __init__(
        self,
        session: Session,
        plan: EvaluationPlan,
        report: Report,
        evaluate: Callable[[str, list[Any]], Evaluated],
    ) -> None:
        self._session, self._plan, self._report, self._evaluate = session, plan, report, evaluate
        self._last_step = -1
        self._without_gain = 0

    def run(self) -> None:
        """Evaluate the present policy; ``report.stopped_early`` after ``patience`` in a row without
        gain.
        """
        plan, report = self._plan, self._report
        done = [self._evaluate(name, tasks) for name, tasks in plan.sets.items()]
        report.evaluations += done
        chosen = next(one for one in done if one.name == plan.chosen)
        value = chosen.report.measures()[plan.measure]
        if math.isnan(value) and chosen.report.count:
            raise InvalidRequest(
                f"best_metric {plan.measure} was not measured: no output of the agent says "
                "is_success.",
                hint="Return WorkflowOutput(reward, is_success=...), or take reward_mean.",
            )
        if chosen.step > self._last_step:  # the same policy again says nothing new
            self._last_step = chosen.step
            self._compare(chosen.step, value)
        if plan.patience is None or self._without_gain < plan.patience:
            return
        best = f"{report.best.value:.3f} at step {report.best.step}" if report.best else "none"
        log.warning(
            "No better %s in %d evaluations (best: %s): stopped early.",
            plan.measure,
            plan.patience,
            best,
        )
        report.stopped_early = True

    def _compare(self, step: int, value: float) -> None:
        best = self._report.best
        if math.isnan(value) or (best is not None and value <= best.value):
            self._without_gain += 1
            return
        self._without_gain = 0
        self._report.best = Best(step, value, self._kept() if self._plan.keep_best else None)
        if best is not None and best.checkpoint_id is not None:
            self._session.checkpoint_pin(best.checkpoint_id, pinned=False)

    def _kept(self) -> str:
        """The present policy as a ``model`` checkpoint, pinned, so that no later one takes its
        place.
        """
        made = checkpoints.make(
            self._session, CheckpointKind.MODEL, deadline=deadline_after(CHECKPOINT_TIMEOUT_S)
        )
        return self._session.checkpoint_pin(made.id).id


def evaluation_record(session: SessionApi, report: Report, name: str) -> int | None:
    """Keep it at the step of the policy that played, which is returned; None where nothing was
    measured.
    """
    if not report.count:
        step = session.status().policy_version
        log.warning(
            "Nothing was measured of %r at step %d: no attempt ended with a reward.", name, step
        )
        return None
    if len(report.versions) > 1:
        log.warning(
            "The policy changed while %r was evaluated: versions %s.", name, sorted(report.versions)
        )
    step = max(report.versions) if report.versions else session.status().policy_version
    try:
        session.evaluation_record(evaluation_of(report, name, step))
    except TinkerScriptError as failure:  # the report is the caller's all the same
        log.warning(
            "The evaluation %r of step %d is not in the session's record: %s", name, step, failure
        )
    return step


def evaluation_of(report: Report, name: str, step: int) -> Evaluation:
    """As the record has it: of more tasks or metrics than it holds those whose names come first,
    the same each time.
    """
    spread = report.spread_by_task
    return Evaluation(
        name=name,
        step=step,
        reward_mean=report.mean,
        reward_std=_measured(report.standard_deviation),
        success_rate=_measured(report.success_rate),
        episodes=report.count,
        failed=len(report.failures),
        by_task={
            task: TaskScore(
                reward_mean=mean,
                reward_std=_measured(spread[task]),
                episodes=len(report.rewards[task]),
            )
            for task, mean in sorted(report.by_task.items())[:MAX_TASKS]
        },
        metrics=dict(sorted(report.metrics.items())[:MAX_METRICS]),
    )


def evaluation_name_check(name: str) -> None:
    """Raises InvalidRequest."""
    if not isinstance(name, str) or not 0 < len(name) <= 60:
        raise wrong("name", name, "a text of 1 to 60 characters")


def episodes_since(session: SessionApi, latest: EpisodeView | None) -> Iterator[EpisodeView]:
    """Those that began after ``latest``, the newest first."""
    for page in pages(session.episode_page):
        for episode in page.items:
            if latest and (
                episode.episode_id == latest.episode_id or episode.begun_at < latest.begun_at
            ):
                return
            yield episode


def _measured(value: float) -> float | None:
    return None if math.isnan(value) else value
