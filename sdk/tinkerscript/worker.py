"""A worker: pulls tasks of a session and runs an agent on them. Any number of them, on any
machines.

Each attempt has one ended episode: the worker says in which episode it plays before the agent runs;
whoever gets the attempt after it gives that episode up first, and where that comes too late because
it has ended, the attempt is done. A worker with a judge takes judged tasks, each with all of its
attempts (``rollouts.judged_task``), and no others.
"""

import contextlib
import importlib
import logging
import os
import socket
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from .arguments import count, seconds
from .client import TinkerScript
from .connection.waiting import Wait
from .episodes.episode import Episode
from .errors import (
    ClientClosed,
    Conflict,
    InvalidRequest,
    SessionEnded,
    SessionFailed,
    StaleLease,
    TinkerScriptError,
    WaitTimeout,
)
from .judge import Judge
from .reports import Failure
from .rollouts.judged_task import JudgedTask, had_ended, lost
from .rollouts.judging import check_judge
from .rollouts.runner import EXITS, Agent, abandon, check_agent, run_agent
from .wire.tasks import LeasedTask, TasksLease

POLL_INTERVAL_S = 1.0
MAX_WORKERS = 256  # leases of one request
FAR_OVER = (ClientClosed, SessionEnded, SessionFailed)
log = logging.getLogger("tinkerscript")


def agent_load(named: str) -> Agent:
    """The function that ``module:name`` means, with the working directory among the places to look.

    Raises InvalidRequest when there is no such module or name, and for what cannot be called as an
    agent.
    """
    agent: Agent = _load(named, "agent", "my_agent:run")
    check_agent(agent)
    return agent


def judge_load(named: str) -> Judge:
    """As agent_load(), for a judge: a function of a task and outputs, or an LlmJudge."""
    judge: Judge = _load(named, "judge", "my_judge:rank")
    check_judge(judge)
    return judge


def _load(named: str, kind: str, example: str) -> Any:
    module, _, name = named.partition(":")
    if not module or not name:
        raise InvalidRequest(
            f"{named!r} names no {kind}.", hint=f"Give module:function, such as {example}."
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except ImportError as failure:
        raise InvalidRequest(f"{named}: the module cannot be imported: {failure}.") from failure
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidRequest(f"{named}: module {module} has no {name}.")
        found = getattr(found, part)
    if not callable(found):
        raise InvalidRequest(f"{named} is a {type(found).__name__}, not a function.")
    return found


@dataclass
class _Held:
    task: LeasedTask
    until: float  # time.monotonic(), when its agent has taken too long
    episode: Episode | None = None
    group: JudgedTask | None = None


class Worker:
    """Plays up to ``workers`` attempts at once until the session ends, or with ``until_empty``
    until the queue is.

    With ``judge`` it plays judged tasks alone, of each one all attempts; without it those that are
    not.
    """

    def __init__(
        self,
        session: TinkerScript,
        agent: Agent,
        *,
        workers: int = 8,
        lease_s: float = 60.0,
        until_empty: bool = False,
        attempt_timeout_s: float | None = None,
        judge: Judge | None = None,
    ) -> None:
        """``attempt_timeout_s``: an agent that has not returned then has failed;
        ``episode_timeout_s`` if absent.
        """
        self._session, self._agent, self._until_empty = session, agent, until_empty
        self._workers, self._lease_s = (
            count("workers", workers, least=1),
            seconds("lease_s", lease_s, least=1.0),
        )
        if self._workers > MAX_WORKERS:
            raise InvalidRequest(
                f"workers is {workers}; {MAX_WORKERS} are allowed.", hint="Start more workers."
            )
        self._name = f"{socket.gethostname()}:{os.getpid()}"[:120]
        self._lock, self._freed = threading.Lock(), threading.Event()
        self._held: dict[str, _Held] = {}
        if attempt_timeout_s is not None:
            seconds("attempt_timeout_s", attempt_timeout_s, least=1.0)
        self._attempt_timeout_s = attempt_timeout_s
        if judge is not None:
            check_judge(judge)
        self._judge, self._has_told = judge, False
        self.done = self.failed = 0

    def run(self) -> None:
        """Return when there is no more to do. Raises Conflict when the session had ended before it
        began.
        """
        first = True
        while True:
            self._freed.clear()
            self._give_up_overdue()
            try:
                idle = self._lease_more()
            except Conflict:
                if first:
                    raise
                log.warning("Session %s has ended: this worker stops.", self._session.id)
                return
            first = False
            if idle and self._until_empty and not self._left():
                return
            # A slot that becomes free is filled at once; an empty queue is asked again a little
            # later.
            self._freed.wait(min(POLL_INTERVAL_S, self._lease_s / 3))

    def _left(self) -> int:
        """Attempts of this worker's kind that wait or run, wherever."""
        counts = self._session.tasks.counts()
        judged = counts.waiting_judged + counts.running_judged
        return judged if self._judge is not None else counts.waiting + counts.running - judged

    def _lease_more(self) -> bool:
        """Renew, and begin what there is; True when nothing is held then."""
        with self._lock:
            held = sorted(self._held)
            places = max(0, self._workers - sum(one.task.attempts for one in self._held.values()))
        # With a judge groups that have places for all of their attempts; where nothing is held, one
        # that may be larger.
        judged = {} if self._judge is None else {"judged": True}
        body = TasksLease(
            worker=self._name, count=places, held=held, lease_s=self._lease_s, **judged
        )
        leases = self._session.tasks.lease(body)
        taken = {task.lease: self._taken(task) for task in leases.items}
        with self._lock:
            self._held |= taken
            gone = [self._held.pop(lease, None) for lease in leases.lost]
        for one in gone:
            if one is not None and one.group is not None:
                one.group.cancel()
        self._tell_others(leases.others_waiting)
        for task in leases.items:
            threading.Thread(
                target=self._work, args=(task,), name="tinkerscript-worker", daemon=True
            ).start()
        return not self._held

    def _taken(self, task: LeasedTask) -> "_Held":
        limit_s = self._attempt_timeout_s or self._session.config.episode_timeout_s
        if self._judge is None:
            return _Held(task, time.monotonic() + limit_s)
        group = JudgedTask(
            self._session,
            self._agent,
            self._judge,
            task,
            threads=self._workers,
            attempt_timeout_s=limit_s,
        )
        return _Held(task, time.monotonic() + group.limit_s, group=group)

    def _tell_others(self, waiting: int) -> None:
        """Once: that there is something in the queue which this worker leaves."""
        if not waiting or self._has_told:
            return
        self._has_told = True
        if self._judge is None:
            log.warning(
                "%d attempts of judged tasks wait: this worker has no judge and leaves them. Start "
                "one with --judge module:function.", waiting,
            )  # fmt: skip
        else:
            log.warning(
                "%d attempts wait of tasks that are not judged: this worker has a judge and leaves "
                "them. Start one without --judge.", waiting,
            )  # fmt: skip

    def _give_up_overdue(self) -> None:
        """No thread can be ended from outside: its place is free, and what its agent still does
        counts nothing.
        """
        with self._lock:
            overdue = [held for held in self._held.values() if time.monotonic() >= held.until]
            for held in overdue:
                del self._held[held.task.lease]
        for held in overdue:
            threading.Thread(
                target=self._give_up, args=(held,), name="tinkerscript-worker", daemon=True
            ).start()

    def _give_up(self, held: "_Held") -> None:
        late = WaitTimeout("The agent did not return in time.")
        # first its lease: a judge that returns after all decides nothing then
        if held.group is not None:
            self._failed(held.task, WaitTimeout("The agent or its judge did not return in time."))
            held.group.cancel()
            return
        if held.episode is not None:
            abandon(held.episode, type(late).__name__)
        self._failed(held.task, late)

    def _work(self, task: LeasedTask) -> None:
        try:
            error, final = self._played(task)
            if self._holds(task):
                self._ended(task, error, final=final)
                if error is not None:
                    log.warning(
                        "Task %s failed in try %d of %d: %s",
                        task.name,
                        task.try_number,
                        task.tries,
                        error,
                    )
        except StaleLease:
            log.warning(
                "Task %s was taken over: its lease of %g s had run out.", task.name, self._lease_s
            )
        except FAR_OVER:
            pass  # the next lease says so too
        except (Exception, *EXITS) as failure:  # noqa: BLE001 - the agent is the user's: told to the server, tried again
            if self._holds(task):
                self._failed(task, failure)
        finally:
            with self._lock:
                self._held.pop(task.lease, None)
            self._freed.set()

    def _holds(self, task: LeasedTask) -> bool:
        """Whether the attempt is still this worker's: its agent has taken no longer than it may."""
        with self._lock:
            return task.lease in self._held

    def _played(self, task: LeasedTask) -> tuple[str | None, bool]:
        """None when the attempt has one ended episode, else what is wrong; and whether no other try
        can mend that.
        """
        with self._lock:
            held = self._held.get(task.lease)
        if held is not None and held.group is not None:
            return held.group.play()
        if task.episode_id is not None and had_ended(self._session, task.episode_id):
            return None, False
        if task.try_number > task.tries:
            return lost(task), False
        with self._session.begin_waiting(Wait(), task=task.name, eval=task.eval) as episode:
            self._session.tasks.episode_set(task, episode.id)
            with self._lock:
                if task.lease in self._held:
                    self._held[task.lease].episode = episode
            output = run_agent(self._agent, task.row, episode)
            if output is not None or episode.result is None:
                episode.end(output)
        return None, False

    def _ended(self, task: LeasedTask, error: str | None, *, final: bool = False) -> None:
        self._session.tasks.finish(task, error, final=final)
        with self._lock:
            self.done += task.attempts if error is None else 0
            self.failed += error is not None

    def _failed(self, task: LeasedTask, failure: BaseException) -> None:
        log.warning(
            "Task %s failed in try %d of %d: %r", task.name, task.try_number, task.tries, failure
        )
        with contextlib.suppress(TinkerScriptError):  # its lease runs out, and another worker tries
            self._ended(task, Failure(task.name, failure).kind)
