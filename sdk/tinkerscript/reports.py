"""What came of many attempts: rewards by task, how far a run is, and a table of what failed. A
failure is never a reward of zero.
"""

import math
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import stdev

import httpx

from tinkerscript.connection.error_responses import excerpt, hint_for, is_page
from tinkerscript.wire.episodes import EpisodeView

MAX_SHOWN = 10
MAX_MESSAGE = 200
MAX_PAGE = 4000  # characters that are looked at
# What makes two errors of one kind differ: a request, an episode, the text that an agent returned
# as its reward.
OF_ONE_ATTEMPT = re.compile(
    r" \(request \w+\)|(?<=\bepi_)\w+| \(it is .*\)(?=\. Hint:|\.$| is no workflow)"
)
# What agents, and the frameworks below them, read first of an answer of OpenAI's or Anthropic's
# client.
FIELDS_OF_ANSWERS = {"choices", "content", "error", "model_dump", "output", "output_text", "usage"}


@dataclass(frozen=True)
class Failure:
    """One attempt that was not ended: the task's name, the exception."""

    task: str
    error: BaseException

    @property
    def kind(self) -> str:
        """Type and message, on one line, without the ids of one attempt; where nothing responded,
        which endpoint that was; of a web page that an agent's client got in place of an answer,
        what it is.
        """
        message = OF_ONE_ATTEMPT.sub("", " ".join(str(self.error).split()))[:MAX_MESSAGE]
        where = _where_of(self.error)
        if where and httpx.URL(where).host not in message:
            message = f"{message} ({where})"
        page = _page_of(self.error)
        if page not in message:
            message = f"{message} ({page})" if message else page
        return f"{type(self.error).__name__}: {message}" if message else type(self.error).__name__


def _where_of(error: BaseException) -> str:
    """The address that an HTTP client's ``error`` got no response from, without user, password and
    query; else "".

    OpenAI's says no more than "Connection error.", and an agent may ask several endpoints.
    """
    if getattr(error, "response", None) is not None:
        return ""
    try:
        url = httpx.URL(str(getattr(getattr(error, "request", None), "url", "")))
    except (RuntimeError, httpx.InvalidURL):  # httpx raises the first where no request is set
        return ""
    return f"{url.scheme}://{url.netloc.decode()}{url.path}" if url.host else ""


def _page_of(error: BaseException) -> str:
    """Which page the response of ``error`` holds, whose client leaves it out; "" without one.

    Clients bring an HTTP package of their own, or another version of it: what their responses have
    in common is read. OpenAI's takes a page that comes with status 200 for an answer, whose fields
    are then looked for in a string; an agent that reads pages of its own looks for others.
    """
    if (
        isinstance(error, AttributeError)
        and error.name in FIELDS_OF_ANSWERS
        and isinstance(error.obj, str)
    ):
        page = error.obj[:MAX_PAGE].encode("utf-8", "replace")
        if is_page(page):
            return f"{excerpt(page)}. {hint_for(200, page, {}, '')}"
    response = getattr(error, "response", None)
    try:
        body = getattr(response, "content", None)
    except RuntimeError:  # a stream that was not read
        return ""
    status = getattr(response, "status_code", 0)
    if not isinstance(body, bytes) or not isinstance(status, int) or not is_page(body):
        return ""
    return f"{excerpt(body)}. {hint_for(status, body, {}, '')}"


def _deviation(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else math.nan


@dataclass(frozen=True)
class Evaluated:
    """What one set of tasks, ``name``, came to with the policy after ``step`` steps."""

    step: int
    name: str
    report: "Report"


@dataclass(frozen=True)
class Best:
    """The best evaluation of a run; ``checkpoint_id`` is the policy that played it, with
    ``keep_best``.
    """

    step: int
    value: float
    checkpoint_id: str | None = None


@dataclass
class Report:
    """``rewards`` by task, in the order in which the attempts ended; ``wanted`` attempts were asked
    for in all.
    """

    wanted: int
    attempts_per_task: int
    rewards: dict[str, list[float]] = field(default_factory=dict)
    successes: list[bool] = field(default_factory=list)  # of the outputs that say
    # what the outputs have in metrics and reward_parts
    measured: dict[str, list[float]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0
    versions: set[int] = field(default_factory=set)  # of the policies that played
    evaluations: list[Evaluated] = field(default_factory=list)  # of rollouts(evaluate_every=...)
    best: Best | None = None
    stopped_early: bool = False

    def add(self, task: str, episode: EpisodeView) -> None:
        """Count an attempt at ``task`` that was ended."""
        self.rewards.setdefault(task, []).append(float(episode.reward or 0.0))
        played = (episode.policy_version_first, episode.policy_version_last)
        self.versions.update(version for version in played if version is not None)
        for name, value in episode.metrics.items():
            self.measured.setdefault(name, []).append(value)
        if episode.is_success is not None:
            self.successes.append(episode.is_success)

    @property
    def count(self) -> int:
        """Attempts that were ended with a reward."""
        return sum(map(len, self.rewards.values()))

    @property
    def mean(self) -> float:
        """Mean reward of those; NaN when there is none."""
        return sum(map(sum, self.rewards.values())) / self.count if self.count else math.nan

    @property
    def standard_deviation(self) -> float:
        """Of the rewards; NaN with fewer than two attempts."""
        return _deviation([reward for rewards in self.rewards.values() for reward in rewards])

    @property
    def standard_error(self) -> float:
        """Of the mean; NaN with fewer than two attempts."""
        return self.standard_deviation / math.sqrt(self.count) if self.count else math.nan

    @property
    def success_rate(self) -> float:
        """Share of successes among the outputs that have ``is_success``; NaN when none has."""
        return sum(self.successes) / len(self.successes) if self.successes else math.nan

    @property
    def by_task(self) -> dict[str, float]:
        """Mean reward of each task."""
        return {task: sum(rewards) / len(rewards) for task, rewards in self.rewards.items()}

    @property
    def spread_by_task(self) -> dict[str, float]:
        """Standard deviation of each task's rewards; NaN of a single one."""
        return {task: _deviation(rewards) for task, rewards in self.rewards.items()}

    @property
    def metrics(self) -> dict[str, float]:
        """Mean of each metric of the outputs, over those that have it; of the parts of the reward
        as ``reward/...``.
        """
        return {name: sum(values) / len(values) for name, values in self.measured.items()}

    def measures(self) -> dict[str, float]:
        """What trackers are told of an evaluation; NaN where nothing was measured."""
        return {
            **self.metrics,
            "reward_mean": self.mean,
            "reward_std": self.standard_deviation,
            "reward_standard_error": self.standard_error,
            "success_rate": self.success_rate,
            "attempts": self.count,
            "failed": len(self.failures),
        }

    def __str__(self) -> str:
        spread = "" if math.isnan(self.standard_error) else f" ± {self.standard_error:.3f}"
        success = "" if math.isnan(self.success_rate) else f", success {self.success_rate:.0%}"
        failed = f", {len(self.failures)} failed" if self.failures else ""
        reward = f"{self.mean:.3f}" if self.count else "none"
        ended = f"{self.count} of {self.wanted} attempts{failed}"
        return f"{ended}, reward {reward}{spread}{success}, {self.seconds:.0f} s"

    def table(self) -> str:
        """The failures by kind, the most frequent first; empty when there is none."""
        if not self.failures:
            return ""
        kinds = Counter(failure.kind for failure in self.failures)
        examples = {failure.kind: failure.task for failure in reversed(self.failures)}
        lines = [f"{len(self.failures)} attempts failed; they were abandoned, not rewarded with 0:"]
        lines += [
            f"  {n:>5} x {kind}   (task {examples[kind]})"
            for kind, n in kinds.most_common(MAX_SHOWN)
        ]
        if len(kinds) > MAX_SHOWN:
            lines.append(f"  ... and {len(kinds) - MAX_SHOWN} other kinds")
        return "\n".join(lines)


LINE_INTERVAL_S = 10.0  # where the line cannot rewrite itself


class ProgressLine:
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
