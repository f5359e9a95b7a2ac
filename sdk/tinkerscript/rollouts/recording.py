"""What an evaluation measured, put into the session's record, where the console and every program
find it.
"""

import logging
import math
from collections.abc import Iterator

from tinkerscript.arguments import wrong
from tinkerscript.connection.session_api import SessionApi, pages
from tinkerscript.errors import TinkerScriptError
from tinkerscript.reports import Report
from tinkerscript.wire.episodes import EpisodeView
from tinkerscript.wire.events import MAX_METRICS, MAX_TASKS, Evaluation, Event, TaskScore

log = logging.getLogger("tinkerscript")


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
        measured = evaluation_of(report, name, step)
        session.send("POST", "/evaluations", Event, body=measured)
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
