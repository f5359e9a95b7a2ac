"""Runs an agent on many tasks, several attempts each, in threads: for session.rollouts() and session.evaluate()."""

import asyncio
import contextlib
import hashlib
import inspect
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tinkerscript.arguments import count, function_or_none, wrong
from tinkerscript.connection.waiting import Wait
from tinkerscript.episodes.episode import Episode
from tinkerscript.errors import (
    ClientClosed,
    EmptyEpisode,
    EpisodeClosed,
    InvalidRequest,
    NoOpenEpisode,
    SessionEnded,
    TinkerScriptError,
)
from tinkerscript.reports import Failure, Report

Agent = Callable[[Any, Episode], Any]
Begin = Callable[[Wait, str], Episode]

LINE_INTERVAL_S = 10.0  # of the progress line where it cannot rewrite itself
INTERRUPTED_WAIT_S = 5.0
# What an attempt can get wrong by itself. Any other error of ours would meet every attempt.
OF_ONE_ATTEMPT = (EmptyEpisode, EpisodeClosed, InvalidRequest, NoOpenEpisode)


@dataclass(frozen=True)
class Attempt:
    task: Any
    name: str
    retries_left: int


@dataclass
class Runner:
    """One run over ``attempts``; each worker thread takes the next. The first fatal error ends them all."""

    agent: Agent
    begin: Begin
    attempts: "deque[Attempt]"
    report: Report
    progress: bool = True
    cancelled: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _fatal: BaseException | None = None
    _waits: set[Wait] = field(default_factory=set)
    _open: set[Episode] = field(default_factory=set)

    def run(self, workers: int) -> Report:
        """Carry out every attempt. Ctrl-C, and ``cancelled``, abandon the open episodes and begin no more.

        Raises InvalidRequest for an agent that cannot be called with a task and an episode, before any begins.
        """
        workers = count("workers", workers, least=1)
        if not isinstance(self.cancelled, threading.Event):
            raise wrong("cancelled", self.cancelled, "a threading.Event")
        check_agent(self.agent)
        started = time.monotonic()
        size = min(workers, len(self.attempts))
        threads: list[threading.Thread] = []
        line = _Line(self.progress)
        try:
            for _ in range(size):  # Ctrl-C may come while they start
                threads.append(threading.Thread(target=self._work, name="tinkerscript-rollout", daemon=True))
                threads[-1].start()
            while alive := [thread for thread in threads if thread.is_alive()]:
                alive[0].join(0.2)
                if self.cancelled.is_set():
                    self._interrupt(threads)
                    break
                line.show(self._said())
        except BaseException:
            self._interrupt(threads)
            raise
        finally:
            self.report.seconds += time.monotonic() - started
            line.end(str(self.report), self.report.table())
        if self._fatal is not None:
            raise self._fatal
        return self.report

    def _said(self) -> str:
        report = self.report
        failed = f"  failed {len(report.failures)}" if report.failures else ""
        reward = f"{report.mean:.3f}" if report.count else "none yet"
        return f"attempts {report.count} / {report.wanted}  reward {reward}{failed}"

    def _work(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                if not self.attempts:
                    return
                attempt = self.attempts.popleft()
            try:
                self._try(attempt)
            except BaseException as failure:  # noqa: BLE001 - the caller of run() gets it
                self._fatal = self._fatal or failure
                self._stop.set()

    def _try(self, attempt: Attempt) -> None:
        wait = Wait()
        with _in(self._waits, wait):
            episode = self.begin(wait, attempt.name)
        with _in(self._open, episode), episode:
            try:
                output = run_agent(self.agent, attempt.task, episode)
                view = episode.result if output is None and episode.result is not None else episode.end(output)
            except (ClientClosed, SessionEnded):
                raise
            except TinkerScriptError as failure:
                if not isinstance(failure, OF_ONE_ATTEMPT):
                    raise
                self._failed(attempt, failure)
                return
            except Exception as failure:  # noqa: BLE001 - the agent is the user's: counted, shown in the table
                self._failed(attempt, failure)
                return
        with self._lock:
            self.report.rewards.setdefault(attempt.name, []).append(float(view.reward or 0.0))
            played = (view.policy_version_first, view.policy_version_last)
            self.report.versions.update(version for version in played if version is not None)
            if view.is_success is not None:
                self.report.successes.append(view.is_success)

    def _failed(self, attempt: Attempt, failure: Exception) -> None:
        if self._stop.is_set():
            return
        with self._lock:
            self.report.failures.append(Failure(attempt.name, failure))
            if attempt.retries_left > 0:  # first in the queue: its group waits for it
                self.attempts.appendleft(Attempt(attempt.task, attempt.name, attempt.retries_left - 1))

    def _interrupt(self, threads: list[threading.Thread]) -> None:
        """Takes INTERRUPTED_WAIT_S at most, however many episodes are open; a second Ctrl-C ends it at once."""
        self._stop.set()
        for wait in list(self._waits):
            wait.given_up.set()
        abandoning = [threading.Thread(target=_abandon, args=(episode,), daemon=True) for episode in list(self._open)]
        for thread in abandoning:
            thread.start()
        deadline = time.monotonic() + INTERRUPTED_WAIT_S
        for thread in [*abandoning, *(thread for thread in threads if thread.ident is not None)]:
            thread.join(max(0.0, deadline - time.monotonic()))


def _abandon(episode: Episode) -> None:
    with contextlib.suppress(TinkerScriptError):  # it expires on the server
        episode.abandon("interrupted")


def plan(
    tasks: Iterable[Any], *, attempts: int, epochs: int, retries: int, task_name: Callable[[Any], str] | None
) -> "deque[Attempt]":
    """Every attempt, task by task, so that groups are full as early as can be. Raises InvalidRequest."""
    attempts, epochs = count("attempts", attempts, least=1), count("epochs", epochs, least=1)
    retries = count("retries", retries, least=0)
    function_or_none("task_name", task_name)
    if isinstance(tasks, str | bytes | Mapping) or not isinstance(tasks, Iterable):
        raise InvalidRequest(f"tasks is one {type(tasks).__name__}.", hint="Give a list of tasks: [task, ...].")
    named = [(task, (task_name or name_of)(task)) for task in tasks]
    for task, name in named:
        if not isinstance(name, str) or not 0 < len(name) <= 512:
            raise wrong(f"task_name({task!r:.40})", name, "a text of 1 to 512 characters")
    if not named:
        raise InvalidRequest("There are no tasks.", hint="Give a list of them, or look at the split that was read.")
    return deque(Attempt(task, name, retries) for _ in range(epochs) for task, name in named for _ in range(attempts))


def name_of(task: Any) -> str:
    """The key of a task: a text is its own key, anything else has the hash of its JSON."""
    if isinstance(task, str) and 0 < len(task) <= 200:
        return task
    try:
        text = json.dumps(task, sort_keys=True)
    except (TypeError, ValueError) as failure:
        raise InvalidRequest(
            f"A task of type {type(task).__name__} has no name: {failure}",
            hint="Give task_name, a function from a task to a text that is its own.",
        ) from failure
    return "task-" + hashlib.sha256(text.encode()).hexdigest()[:16]


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


class _Line:
    """One line on stderr: it rewrites itself on a terminal, elsewhere there is one now and then."""

    def __init__(self, wanted: bool) -> None:
        self._wanted, self._rewrites = wanted, sys.stderr.isatty()
        self._next = time.monotonic() + LINE_INTERVAL_S

    def show(self, text: str) -> None:
        if not self._wanted or (not self._rewrites and time.monotonic() < self._next):
            return
        self._next = time.monotonic() + LINE_INTERVAL_S
        sys.stderr.write(f"\r\x1b[K{text}" if self._rewrites else f"{text}\n")
        sys.stderr.flush()

    def end(self, *texts: str) -> None:
        if self._wanted:
            said = "\n".join(text for text in texts if text)
            sys.stderr.write(f"\r\x1b[K{said}\n" if self._rewrites else f"{said}\n")
