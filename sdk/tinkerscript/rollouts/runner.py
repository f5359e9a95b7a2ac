"""Runs an agent on many tasks, several attempts each, in threads: for session.rollouts() and
session.evaluate().
"""

import asyncio
import contextlib
import inspect
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tinkerscript.arguments import count, wrong
from tinkerscript.connection.user_calls import Deadlines, GivenUp
from tinkerscript.connection.waiting import Wait
from tinkerscript.episodes.episode import Episode
from tinkerscript.errors import (
    ClientClosed,
    EmptyEpisode,
    EpisodeClosed,
    InvalidRequest,
    JudgeFailed,
    NoOpenEpisode,
    SessionEnded,
    TinkerScriptError,
    WaitTimeout,
)
from tinkerscript.reports import Failure, ProgressLine, Report
from tinkerscript.wire.episodes import WorkflowOutput

from .attempts import Attempt
from .judging import Candidate, JudgedGroups, check_judgeable

Agent = Callable[[Any, Episode], Any]
Begin = Callable[[Wait, str], Episode]

INTERRUPTED_WAIT_S = 5.0
# What an agent may raise beside an Exception: sys.exit(), as programs call it, ends its attempt and
# not the run.
EXITS = (SystemExit, asyncio.CancelledError)
# What an attempt can get wrong by itself. Any other error of ours would meet every attempt.
OF_ONE_ATTEMPT = (EmptyEpisode, EpisodeClosed, InvalidRequest, JudgeFailed, NoOpenEpisode)


@dataclass
class Runner:
    """One run over ``attempts``; each worker thread takes the next. The first fatal error ends them
    all.
    """

    agent: Agent
    begin: Begin
    attempts: "deque[Attempt]"
    report: Report
    progress: bool = True
    cancelled: threading.Event = field(default_factory=threading.Event)
    judging: JudgedGroups | None = None
    put_aside: Callable[[], None] = lambda: None  # the thread's current episode, which stays open
    attempt_timeout_s: float = math.inf
    # before they end
    decided: Callable[[list[Episode], list[WorkflowOutput]], None] = lambda episodes, outputs: None
    agent_ended: bool = False  # an episode that was the judge's to end
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _fatal: BaseException | None = None
    _waits: set[Wait] = field(default_factory=set)
    _open: set[Episode] = field(default_factory=set)
    _deadlines: Deadlines = field(default_factory=Deadlines)

    def run(self, workers: int) -> Report:
        """Carry out every attempt. Ctrl-C, and ``cancelled``, abandon the open episodes and begin
        no more.

        Raises InvalidRequest for an agent that cannot be called with a task and an episode, before
        any begins.
        """
        workers = count("workers", workers, least=1)
        if not isinstance(self.cancelled, threading.Event):
            raise wrong("cancelled", self.cancelled, "a threading.Event")
        check_agent(self.agent)
        started = time.monotonic()
        size = min(workers, len(self.attempts))
        threads: list[threading.Thread] = []
        line = ProgressLine(self.progress)
        try:
            for _ in range(size):  # Ctrl-C may come while they start
                threads.append(_started(self._work))
            while alive := [thread for thread in threads if thread.is_alive()]:
                alive[0].join(0.2)
                if self.cancelled.is_set():
                    self._interrupt(threads)
                    break
                self._give_up_overdue(threads)
                line.show(self._said())
        except BaseException:
            self._interrupt(threads)
            raise
        finally:
            self.report.seconds += time.monotonic() - started
            if self.judging is not None:
                self.judging.abandon_all()
            line.end(str(self.report), self.report.table())
        if self._fatal is not None:
            raise self._fatal
        return self.report

    def _said(self) -> str:
        report = self.report
        failed = f"  failed {len(report.failures)}" if report.failures else ""
        reward = f"{report.mean:.3f}" if report.count else "none yet"
        return f"attempts {report.count} / {report.wanted}  reward {reward}{failed}"

    def _work(self, first: Callable[[], None] | None = None) -> None:
        """What a thread does, until there is nothing left or another has taken its place."""
        todo = first or self._next()
        while todo is not None:
            try:
                todo()
            except GivenUp:
                return
            except BaseException as failure:  # noqa: BLE001 - the caller of run() gets it
                self._fatal = self._fatal or failure
                self._stop.set()
            todo = self._next()

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            if self._stop.is_set() or not self.attempts:
                return None
            return partial(self._try, self.attempts.popleft())

    def _give_up_overdue(self, threads: list[threading.Thread]) -> None:
        for thread, say_late in self._deadlines.take_overdue():
            threads.remove(thread)
            threads.append(_started(self._work, say_late))

    def _late(self, who: str, played: list[tuple[Attempt, Episode]], again: bool) -> None:
        late = WaitTimeout(f"The {who} had not returned after {self.attempt_timeout_s:g} s.")
        for attempt, episode in played:
            abandon(episode, type(late).__name__)
            self._failed(attempt, episode, late, again)

    def _try(self, attempt: Attempt) -> None:
        wait = Wait()
        with _in(self._waits, wait):
            episode = self.begin(wait, attempt.group)
        with contextlib.ExitStack() as held:
            held.enter_context(_in(self._open, episode))
            held.enter_context(episode)
            with self._counted((attempt, episode)):
                say_late = partial(self._late, "agent", [(attempt, episode)], again=True)
                with self._deadlines.limit(self.attempt_timeout_s, say_late):
                    output = run_agent(self.agent, attempt.task, episode)
                if self.judging is None:
                    self._end(attempt, episode, output)
                else:
                    check_judgeable(episode, output)
                    self.put_aside()
                    candidate = Candidate(attempt, episode, output, held.pop_all())
                    self._judge(self.judging.add(attempt.group, candidate))

    def _end(self, attempt: Attempt, episode: Episode, output: Any) -> None:
        view = (
            episode.result if output is None and episode.result is not None else episode.end(output)
        )
        with self._lock:
            self.report.add(attempt.name, view)

    def _judge(self, group: list[Candidate]) -> None:
        """End every episode of a group with what the judge says; none is played again for the
        judge's failure.
        """
        if self.judging is None or not group:
            return
        with contextlib.ExitStack() as held:
            for candidate in group:
                held.enter_context(candidate.held)
            outputs: list[WorkflowOutput] = []
            played = [(candidate.attempt, candidate.episode) for candidate in group]
            with self._counted(*played, again=False):
                with self._deadlines.limit(
                    self.attempt_timeout_s, partial(self._late, "judge", played, again=False)
                ):
                    judged = self.judging.outputs(group)
                self.decided([candidate.episode for candidate in group], judged)
                outputs = judged
            for candidate, output in zip(group, outputs, strict=False):  # none when it failed
                with self._counted((candidate.attempt, candidate.episode), again=False):
                    self._end(candidate.attempt, candidate.episode, output)

    @contextlib.contextmanager
    def _counted(self, *played: tuple[Attempt, Episode], again: bool = True) -> Iterator[None]:
        """A failure of what these attempts do is counted; what ends the session goes through."""
        try:
            yield
        except (ClientClosed, SessionEnded):
            raise
        except (Exception, *EXITS) as failure:
            if isinstance(failure, TinkerScriptError) and not isinstance(failure, OF_ONE_ATTEMPT):
                raise
            for attempt, episode in played:
                if episode.is_open:
                    abandon(episode, type(failure).__name__)
                self._failed(attempt, episode, failure, again)

    def _failed(
        self, attempt: Attempt, episode: Episode, failure: BaseException, again: bool
    ) -> None:
        if self._stop.is_set():
            return
        with self._lock:
            self.report.failures.append(Failure(attempt.name, failure))
            # Played again, an attempt whose agent ended its episode would have two that count.
            has_ended = again and self.judging is not None and episode.result is not None
            self.agent_ended = self.agent_ended or has_ended
            repeats = again and not has_ended and attempt.retries_left > 0
            if repeats:  # first in the queue: its group waits for it
                self.attempts.appendleft(replace(attempt, retries_left=attempt.retries_left - 1))
        if again and not repeats and self.judging is not None:
            self._judge(self.judging.miss(attempt.group))

    def _interrupt(self, threads: list[threading.Thread]) -> None:
        """Takes INTERRUPTED_WAIT_S at most, however many episodes are open; a second Ctrl-C ends it
        at once.
        """
        self._stop.set()
        for wait in list(self._waits):
            wait.given_up.set()
        abandoning = [
            threading.Thread(target=abandon, args=(episode,), daemon=True)
            for episode in list(self._open)
        ]
        for thread in abandoning:
            thread.start()
        deadline = time.monotonic() + INTERRUPTED_WAIT_S
        for thread in [*abandoning, *(thread for thread in threads if thread.ident is not None)]:
            thread.join(max(0.0, deadline - time.monotonic()))


def _started(target: Callable[..., None], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(
        target=target, args=arguments, name="tinkerscript-rollout", daemon=True
    )
    thread.start()
    return thread


def abandon(episode: Episode, reason: str = "interrupted") -> None:
    """Give it up, if the server can be told."""
    with contextlib.suppress(TinkerScriptError):  # it expires on the server
        episode.abandon(reason)


def check_agent(agent: Agent) -> None:
    """Raises InvalidRequest for what cannot be called with a task and an episode."""
    try:
        inspect.signature(agent).bind("task", "episode")
    except ValueError:
        return  # some callables written in C do not tell
    except TypeError as failure:
        raise InvalidRequest(
            f"The agent cannot be called with a task and an episode: {failure}.",
            hint="Give a function of two arguments: def agent(task, episode): ... return reward.",
        ) from failure


def run_agent(agent: Agent, task: Any, episode: Episode) -> Any:
    """What the agent returns; a coroutine is run to its end in this thread."""
    output = agent(task, episode)
    return asyncio.run(_awaited(output)) if inspect.isawaitable(output) else output


async def _awaited(output: Any) -> Any:
    return await output


@contextlib.contextmanager
def _in(group: set[Any], member: Any) -> Any:
    group.add(member)
    try:
        yield
    finally:
        group.discard(member)
