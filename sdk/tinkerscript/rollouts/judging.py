"""Attempts that wait with an open episode until all of their group are there, so that they can be
judged together.
"""

import inspect
import secrets
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from tinkerscript.arguments import function_or_none
from tinkerscript.episodes.episode import Episode
from tinkerscript.errors import EmptyEpisode, InvalidRequest, JudgeFailed
from tinkerscript.judge import Judge
from tinkerscript.outputs import workflow_output
from tinkerscript.wire.episodes import WorkflowOutput
from tinkerscript.wire.tasks import GROUP_MARK, MAX_GROUP_NAME


def group_key(name: str) -> str:
    """The name of one group on the server. Attempts of other groups at the same task must not fill
    it: their judge is another, and whose attempts wait for each other must be those that the server
    waits for.
    """
    return f"{name[:MAX_GROUP_NAME]}{GROUP_MARK}{secrets.token_hex(4)}"


@dataclass(eq=False)
class Candidate:
    """What an agent returned. ``held`` keeps its episode; to close it abandons an episode that was
    not ended.
    """

    attempt: Any
    episode: Episode
    output: Any
    held: ExitStack


@dataclass
class JudgedGroups:
    """Safe to share between threads. No thread waits for a group: the one that brings its last
    attempt judges it.
    """

    judge: Judge
    size: int
    _waiting: dict[str, list[Candidate]] = field(default_factory=dict)
    _missing: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        check_judge(self.judge)

    def add(self, group: str, candidate: Candidate) -> list[Candidate]:
        """All of the group once they are there; else none."""
        with self._lock:
            self._waiting.setdefault(group, []).append(candidate)
            return self._whole(group)

    def miss(self, group: str) -> list[Candidate]:
        """An attempt of the group has failed for good: returns the others once they are all
        there.
        """
        with self._lock:
            self._missing[group] = self._missing.get(group, 0) + 1
            return self._whole(group)

    def _whole(self, group: str) -> list[Candidate]:
        if len(self._waiting.get(group, [])) + self._missing.get(group, 0) < self.size:
            return []
        return self._waiting.pop(group, [])

    def outputs(self, candidates: Sequence[Candidate]) -> list[WorkflowOutput]:
        """What the judge makes of them, in their order: all of it, or none.

        Raises JudgeFailed; what the judge raises goes through.
        """
        if len(candidates) < self.size:
            raise JudgeFailed(
                f"{self.size - len(candidates)} of the {self.size} candidates of a task are "
                "missing."
            )
        judged = self.judge(
            candidates[0].attempt.task, [candidate.output for candidate in candidates]
        )
        if (
            not isinstance(judged, Sequence)
            or isinstance(judged, str | bytes)
            or len(judged) != len(candidates)
        ):
            said = (
                f"{len(judged)} outputs" if isinstance(judged, Sequence) else type(judged).__name__
            )
            raise JudgeFailed(
                f"The judge returned {said} for {len(candidates)} candidates.",
                hint="Return a list with a reward or WorkflowOutput for each.",
            )
        return [_output(number, said) for number, said in enumerate(judged, 1)]

    def abandon_all(self) -> None:
        """Give up what still waits for others: no one will come."""
        with self._lock:
            left = [candidate for group in self._waiting.values() for candidate in group]
            self._waiting.clear()
        for candidate in left:
            candidate.held.close()


def _output(number: int, said: Any) -> WorkflowOutput:
    try:
        return workflow_output(said)
    except InvalidRequest as failure:
        raise JudgeFailed(
            f"The judge's output for candidate {number} cannot be used: {failure.message}"
        ) from failure


def check_judge(judge: Any) -> None:
    """Raises InvalidRequest for what cannot be called with a task and outputs."""
    function_or_none("judge", judge)
    hint = "Give a plain function: def judge(task, outputs): ... return a reward for each."
    if inspect.iscoroutinefunction(judge):
        raise InvalidRequest("judge is a coroutine function.", hint=hint)
    try:
        inspect.signature(judge).bind("task", ["output"])
    except ValueError:
        return  # some callables written in C do not tell
    except TypeError as failure:
        raise InvalidRequest(
            f"The judge cannot be called with a task and outputs: {failure}.", hint=hint
        ) from failure


def check_judgeable(episode: Episode, output: Any) -> None:
    """Raises InvalidRequest for an agent that left the judge nothing to do, EmptyEpisode for one
    that called nothing: it could not be ended, and the group would lack it once the others are.
    """
    if episode.result is not None:
        raise InvalidRequest(
            "The agent ended its episode, which the judge does.", hint="Return what it is to read."
        )
    if output is None:
        raise InvalidRequest(
            "The agent returned nothing for the judge.", hint="Return a text or messages."
        )
    if episode.heartbeat().calls == 0:
        raise EmptyEpisode(
            "The agent made no LLM call in its episode.",
            hint="Give its client the episode's base_url.",
        )
