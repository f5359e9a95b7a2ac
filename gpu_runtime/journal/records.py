"""What the journal holds, as plain values: episodes, their calls with their names,
and batches. No database in here.

Shape legend: P tokens of a prompt, T tokens of one completion.
"""

import base64
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gpu_runtime.journal.token_values import AllowedSet, Experts
from tinkerscript.wire.episodes import (
    EpisodeState,
    EpisodeView,
    RefusedCalls,
    SampleFate,
    WorkflowOutput,
)
from tinkerscript.wire.reading.calls import is_sampled_raw

CallStatus = Literal["completed", "cancelled"]
PROMPT_KEY = "prompt:"  # and a hash: a group key of episodes without a task
CACHED = "cached_tokens"  # among a call's options, where there are any
# Of the names of one call: ``call_X`` in the journal, and in a dialect's answer the same X under
# that dialect's prefix. An agent knows a call by the ``id`` of the answer that it got, a reader of
# ``GET .../calls`` by the journal's. Both name it in ``rewards_by_call``.
CALL, CHAT, TEXT, RESPONSE, MESSAGE = "call_", "chatcmpl-", "cmpl-", "resp_", "msg_"
PREFIXES = (CALL, CHAT, TEXT, RESPONSE, MESSAGE)


@dataclass(frozen=True)
class Completion:
    """One sampled answer of a call. ``versions_T[t]`` is the policy version whose weights sampled
    token t, ``allowed_T[t]`` what a grammar left to choose from there; empty where there was none.
    ``raw_logprobs_T`` are those of temperature 1 over all ids, where sampling made others of them.
    ``experts_T[t]`` are the experts of a mixture that sampled token t; empty where none were
    recorded. ``trainer_logprobs_T``, once it is trained, are the trainer's own of the distribution
    that was sampled from, under the weights before the step, and ``trainer_logprobs_after_T`` those
    after it, where the session asks for them; None of a token that it did not train.
    """

    choice: int
    token_ids_T: tuple[int, ...]
    logprobs_T: tuple[float, ...]
    versions_T: tuple[int, ...]
    text: str
    finish_reason: str | None
    message: dict[str, Any]
    stop_reason: str | None = None
    splice_key: str | None = None
    top_logprobs_T: tuple[dict[int, float], ...] = ()
    allowed_T: tuple[AllowedSet | None, ...] = ()
    raw_logprobs_T: tuple[float, ...] = ()
    experts_T: tuple[Experts | None, ...] = ()
    trainer_logprobs_T: tuple[float | None, ...] = ()
    trainer_logprobs_after_T: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Parent:
    """The completion that a prompt continues: its prompt and its first ``kept`` sampled ids are the
    prompt's start.
    """

    call_id: str
    choice: int
    kept: int


@dataclass(frozen=True)
class CallRecord:
    """One LLM request and what the engine generated. ``prompt_ids_P`` is the whole prompt as the
    engine saw it.

    ``messages`` are those after the first ``messages_from``, which are the parent's and its answer.
    """

    id: str
    episode_id: str
    prompt_ids_P: tuple[int, ...]
    completions: tuple[Completion, ...]
    begun_at: float
    ended_at: float
    status: CallStatus = "completed"
    request_id: str | None = None
    body_sha256: str | None = None
    agent: str | None = None
    parent: Parent | None = None
    messages_from: int = 0
    messages: Sequence[dict[str, Any]] = ()
    options: dict[str, Any] = field(default_factory=dict)
    drift: dict[str, Any] | None = None

    @property
    def prompt_logprobs_P(self) -> list[dict[int, float]] | None:
        """Of each prompt token its own log-probability and its alternatives', where the call asked
        for them.
        """
        found = self.options.get("prompt_logprobs_P")
        return found and [
            {int(token): logprob for token, logprob in entry.items()} for entry in found
        ]

    @property
    def cached_tokens(self) -> int:
        """How many tokens of the prompt were in the engine's prefix cache."""
        return self.options.get(CACHED, 0)

    def raw_of(self, answer: Completion) -> tuple[float, ...] | None:
        """Of one of its answers, at temperature 1 over all ids; None where they were not
        recorded.
        """
        return answer.raw_logprobs_T or (
            answer.logprobs_T if is_sampled_raw(self.options) else None
        )

    @property
    def temperature(self) -> float:
        """At which its tokens were sampled."""
        return self.options.get("sampling", {}).get("temperature", 1.0)

    @property
    def max_tokens(self) -> int | None:
        """The most tokens of an answer, where its context had the room; None where it is not
        recorded."""
        return self.options.get("sampling", {}).get("max_tokens")

    @property
    def is_narrowed(self) -> bool:
        """Whether a grammar chose among the tokens that could be sampled: a schema, a forced or a
        strict tool.
        """
        return self.options.get("sampling", {}).get("grammar", False)


@dataclass(frozen=True)
class EpisodeRecord:
    """One row of the episode table. Times are Unix seconds; ``end_seq`` orders completions
    exactly.
    """

    seq: int
    id: str
    task: str | None
    group_key: str | None
    eval: bool
    state: EpisodeState
    fate: SampleFate | None
    reason: str | None
    output: WorkflowOutput | None
    calls: int
    sampled_tokens: int
    version_first: int | None
    version_last: int | None
    report: dict[str, Any] | None
    trained_step: int | None
    begun_at: float
    deadline_at: float
    ended_at: float | None
    end_seq: int | None

    def view(
        self,
        *,
        brief: bool = False,
        idle_at: float | None = None,
        warning: str | None = None,
        refused: RefusedCalls | None = None,
    ) -> EpisodeView:
        """The record as the wire shows it; ``brief`` leaves out what can be large, for lists."""
        fate, output = self.fate, self.output
        if fate is None and self.state is EpisodeState.COMPLETED:
            fate = SampleFate.ACCEPTED
        return EpisodeView(
            episode_id=self.id,
            task=self.task,
            group_key=self.group_key,
            state=self.state,
            fate=fate,
            reason=self.reason,
            eval=self.eval,
            reward=output.reward if output else None,
            is_success=output.is_success if output else None,
            metrics=output.measures if output else {},
            rewards_by_agent=output.rewards_by_agent if output else None,
            rewards_by_call=output.rewards_by_call if output and not brief else None,
            metadata=output.metadata if output and not brief else None,
            calls=self.calls,
            sampled_tokens=self.sampled_tokens,
            timelines=self.report["timelines"] if self.report else None,
            policy_version_first=self.version_first,
            policy_version_last=self.version_last,
            trained_step=self.trained_step,
            begun_at=self.begun_at,
            deadline_at=self.deadline_at,
            idle_at=idle_at,
            warning=warning,
            refused=refused,
            ended_at=self.ended_at,
        )


@dataclass(frozen=True)
class BatchRecord:
    """The composition of one step: ``groups[g]`` lists the episode ids of group g, in training
    order.
    """

    step: int
    policy_version: int
    groups: tuple[tuple[str, ...], ...]


def refused_name(groups: Sequence[Sequence[str]]) -> str:
    """What a refused batch goes by: after its first episode, which is in no other batch, before or
    after.
    """
    return f"refused-{groups[0][0]}"


def dump(value: Any) -> str:
    """Compact ASCII JSON, keys in their given order: any string that Python holds can be stored."""
    return json.dumps(value, separators=(",", ":"))


def plain(text: Any) -> Any:
    """Text that JSON and databases take: halves of surrogate pairs and NUL become marks."""
    if not isinstance(text, str) or (text.isascii() and "\0" not in text):  # None stays None
        return text
    return (
        text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\u2400")
    )


def new_call_id() -> str:
    """A fresh id for the journal."""
    return CALL + secrets.token_hex(12)


def with_prefix(prefix: str, call_id: str) -> str:
    """The call's name under ``prefix``. Example: ``with_prefix(CHAT, "call_1f") ==
    "chatcmpl-1f"``.
    """
    return prefix + call_id.removeprefix(CALL)


def canonical_call_id(name: str) -> str:
    """The journal's id of the call that ``name`` names in any dialect; any other text comes back as
    it is.
    """
    return next(
        (CALL + name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix)), name
    )


def signature_of(call_id: str) -> str:
    """The signature of the thoughts of a call: an echo of them is found by it, whatever a client
    has made of their text. Anthropic's clients keep thoughts that are signed and drop others.
    """
    return base64.b64encode(f"tinkerscript:{call_id}".encode()).decode()
