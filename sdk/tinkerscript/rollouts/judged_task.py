"""A judged task of the queue: one worker plays all of its attempts, judges them, and ends them with
their rewards.

What the judge made of them is on the server before the first of them is ended. So a worker that is
lost has ended none, or the next one ends the others with the same rewards: an attempt never has two
ended episodes.
"""

import math
import threading
from collections import Counter, deque

from tinkerscript.connection.waiting import Wait
from tinkerscript.episodes.episode import Episode
from tinkerscript.errors import (
    Conflict,
    EmptyEpisode,
    EpisodeClosed,
    NotFound,
    SessionEnded,
    SessionFailed,
    StaleLease,
    TinkerScriptError,
)
from tinkerscript.judge import Judge
from tinkerscript.reports import Report
from tinkerscript.wire.episodes import WorkflowOutput
from tinkerscript.wire.tasks import TRIES_OF_ATTEMPT, LeasedTask

from .attempts import Attempt
from .judging import JudgedGroups, group_key
from .runner import Agent, Runner, abandon
from .session_rollouts import SessionRollouts

AGENT_ENDED = (
    "Its agent ended an episode itself, which the judge does: return what the judge is to read."
)
RETRIES = TRIES_OF_ATTEMPT - 1  # of an attempt, before its group is handed to another worker


class JudgedTask:
    """``play()`` it once; ``cancel()`` comes from another thread."""

    def __init__(
        self,
        session: SessionRollouts,
        agent: Agent,
        judge: Judge,
        task: LeasedTask,
        *,
        threads: int,
        attempt_timeout_s: float,
    ) -> None:
        """``threads``: attempts at once."""
        self._session, self._agent, self._judge, self._task = session, agent, judge, task
        self._threads, self._attempt_timeout_s = min(threads, task.attempts), attempt_timeout_s
        self._cancelled, self._is_decided = threading.Event(), False
        self._begun: list[str] = []
        self._lock, self._telling = threading.Lock(), threading.Lock()

    @property
    def limit_s(self) -> float:
        """How long it may take: each attempt and its retries, then the judge, which has as long as
        an attempt.
        """
        rounds = math.ceil(self._task.attempts / self._threads) * (1 + RETRIES)
        return (rounds + 1) * self._attempt_timeout_s

    def cancel(self) -> None:
        """Abandon its episodes, unless their rewards are decided: these are ended, here or by the
        next worker.
        """
        with self._lock:
            if not self._is_decided:
                self._cancelled.set()

    def play(self) -> tuple[str | None, bool]:
        """None when each attempt has one ended episode, else what is wrong; and whether no other
        try can mend that.

        Raises StaleLease, and what ends the session.
        """
        task = self._task
        if task.outputs is not None:
            over = self._hand_in(task.episode_ids, task.outputs)
            if over == 0:
                return None, False
            if over < len(task.episode_ids):
                return (
                    f"{over} of its {len(task.episode_ids)} episodes were over before they could "
                    "be rewarded.",
                    True,
                )
        ended = [had_ended(self._session, episode_id) for episode_id in task.episode_ids]
        if any(ended):
            return AGENT_ENDED, True
        if task.try_number > task.tries:
            return lost(task), False
        if task.outputs is not None:
            self._session.tasks.group_set(task, [])
        report, agent_ended = self._played()
        if report.count == task.attempts:
            return None, False
        kinds = Counter(failure.kind for failure in report.failures)
        said = "; ".join(f"{kind} ({times})" for kind, times in kinds.items()) or "It was given up."
        return said, agent_ended

    def _played(self) -> tuple[Report, bool]:
        """What came of it, and whether an agent ended its episode itself."""
        task = self._task
        report = Report(wanted=task.attempts, attempts_per_task=task.attempts)
        group = group_key(task.name)
        attempts = deque(Attempt(task.row, task.name, RETRIES, group) for _ in range(task.attempts))
        runner = Runner(
            self._agent,
            self._begin,
            attempts,
            report,
            progress=False,
            cancelled=self._cancelled,
            judging=JudgedGroups(self._judge, task.attempts),
            put_aside=self._session.put_aside,
            attempt_timeout_s=self._attempt_timeout_s,
            decided=self._decide,
        )
        with self._session.planned_attempts():
            return runner.run(self._threads), runner.agent_ended

    def _begin(self, wait: Wait, group: str) -> Episode:
        episode = self._session.begin_waiting(wait, task=group, eval=self._task.eval)
        try:
            with self._telling:  # the lists arrive in the order in which they grow
                self._begun.append(episode.id)
                self._session.tasks.group_set(self._task, self._begun)
        except TinkerScriptError as failure:
            abandon(episode, type(failure).__name__)
            raise
        return episode

    def _decide(self, episodes: list[Episode], outputs: list[WorkflowOutput]) -> None:
        """From here on the rewards stand. Raises StaleLease when another worker has the task:
        nothing is ended then.

        Nor abandoned, then and where no one knows whether the server has the rewards: the next
        worker, who is told, ends these episodes with them or gives them up.
        """
        with self._lock:
            self._is_decided = True
        ids = [episode.id for episode in episodes]
        try:
            self._session.tasks.group_set(self._task, ids, outputs)
        except TinkerScriptError as failure:
            if isinstance(failure, StaleLease) or failure.status is None or failure.status >= 500:
                self._session.leave_episodes(ids)
            raise

    def _hand_in(self, episode_ids: list[str], outputs: list[WorkflowOutput]) -> int:
        """End what the worker before had not ended yet; returns how many cannot be."""
        over = 0
        for episode_id, output in zip(episode_ids, outputs, strict=True):
            try:
                self._session.episode_end(episode_id, output)
            except (EpisodeClosed, EmptyEpisode, NotFound):
                over += 1
        return over


def had_ended(session: SessionRollouts, episode_id: str) -> bool:
    """Give up the episode of a worker that was lost; True when it had been ended before."""
    try:
        session.when_ready(lambda: session.episode_abandon(episode_id, "its worker was lost"))
    except NotFound:
        return False
    except (SessionEnded, SessionFailed):
        raise
    except Conflict:
        return True
    return False


def lost(task: LeasedTask) -> str:
    """Why a task has failed whose tries were all begun."""
    return f"Its workers were lost {task.tries} times."
