"""What is kept of each episode for reading: one row, and one document with its calls and every
token.

A runtime sends both under its lease. The row goes to a table, the document, as gzipped JSON, to the
object store: several in one object, so that a short episode does not cost an object of its own.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat

from ..base import Request, Response
from ..episodes import EpisodeView, RefusedCalls
from ..events import Event
from ..training.engine_correction import RATIO_EDGES
from .calls import DriftPoint, EpisodeReport
from .token_pages import EpisodeOutline

MAX_ROWS = 200  # of one request
EXCERPT_CHARACTERS = 500  # of the prompt, and of the answer
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]


class EpisodeFate(StrEnum):
    """Where an episode is in the accounting, in one word."""

    OPEN = "open"
    WAITING = "waiting"  # completed, for its group to fill
    TRAINED = "trained"
    EVAL = "eval"
    STALE = "stale"
    ABANDONED = "abandoned"
    EXPIRED = "expired"


class EpisodeSort(StrEnum):
    """The order of a list of episodes. Those without the value that is sorted by are left out."""

    NEWEST = "newest"
    OLDEST = "oldest"
    BEST = "best"  # by reward
    WORST = "worst"
    LONGEST = "longest"  # by sampled tokens
    SURPRISING = "surprising"  # by the mean log-probability of the sampled tokens, lowest first


class EpisodeRow(Request):
    """An episode as its runtime's journal has it now; a later row of the same id replaces this one.

    ``advantages`` names calls, and is there only where they differ: else ``advantage`` is that of
    each.
    """

    episode_id: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    seq: int = Field(
        ge=0,
        le=2**53 - 1,
        description="Its number in the journal: the order in which episodes began.",
    )
    task: str | None = Field(None, max_length=512)
    group_key: str | None = Field(None, max_length=512)
    eval: bool = False
    fate: EpisodeFate
    reason: str = Field("", max_length=2000)
    reward: FiniteFloat | None = None
    is_success: bool | None = None
    rewards_by_agent: dict[str, FiniteFloat] | None = None
    metrics: dict[str, FiniteFloat] = {}
    agents: list[str] = Field([], max_length=100)
    calls: Count = 0
    sampled_tokens: Count = 0
    timelines: Count | None = None
    drift: Count = Field(0, description="Calls that had to begin a new timeline.")
    policy_version_first: Count | None = None
    policy_version_last: Count | None = None
    trained_step: Count | None = None
    advantage: FiniteFloat | None = Field(
        None, description="The mean over its calls, once it is trained."
    )
    advantages: dict[str, FiniteFloat] | None = None
    logprob_mean: FiniteFloat | None = Field(None, description="Of its sampled tokens.")
    ratio_counts: list[Count] | None = Field(
        None,
        min_length=len(RATIO_EDGES) + 1,
        max_length=len(RATIO_EDGES) + 1,
        description="By ratios_count.",
    )
    prompt: str = Field(
        "", max_length=EXCERPT_CHARACTERS, description="The end of the first prompt's last message."
    )
    answer: str = Field(
        "", max_length=EXCERPT_CHARACTERS, description="The beginning of the last answer."
    )
    refused: RefusedCalls | None = None
    begun_at: FiniteFloat
    deadline_at: FiniteFloat | None = None
    ended_at: FiniteFloat | None = None


class EpisodeRows(Request):
    """``POST /v1/runtime/episodes``. ``journal_last`` is the last number of the journal that a
    runtime began with.

    Rows with a higher number were lost with the machine of the runtime before, and are removed.
    """

    rows: list[EpisodeRow] = Field(max_length=MAX_ROWS)
    journal_last: int | None = Field(None, ge=0, le=2**53 - 1)


class TokenRun(Response):
    """Consecutive tokens of a timeline: sampled in one answer and trained here, or context.

    ``pieces`` joined are ``text``. The bytes of a character that several tokens share are with the
    last of them.
    """

    call: str | None = Field(
        description="Whose answer these tokens are; null: context, which is not trained."
    )
    answer: int = Field(0, description="Which of the call's answers.")
    start: int = Field(description="The position of the first token in the timeline.")
    tokens: int
    text: str = Field(description="As decoded, special tokens included.")
    token_ids: list[int]
    pieces: list[str] = Field(
        [], description="The text of each token; like the next two, empty for context."
    )
    logprobs: list[float] = Field([], description="Of the distribution that each was sampled from.")
    raw_logprobs: list[float] | None = Field(
        None,
        description="The model's own, at temperature 1 over all token ids, where they differ from "
        "logprobs; null where they are the same (is_sampled_raw) or were not recorded.",
    )
    is_sampled_raw: bool = Field(
        False,
        description="Whether the call was sampled from the model's own distribution: logprobs are "
        "the raw ones.",
    )
    trainer_logprobs: list[float | None] | None = Field(
        None,
        description="The trainer's own, of the distribution that was sampled from, under the "
        "weights before the step that trained these tokens; null of a token that it did not train. "
        "Null as a whole where they are not kept: of tokens that no step computed.",
    )
    trainer_logprobs_after: list[float | None] | None = Field(
        None,
        description="The same under the weights after that step; null as a whole too where the "
        "session has no logprobs_after_step.",
    )
    policy_versions: list[int] = []
    split_bytes: dict[int, str] = Field(
        {}, description="By index: the bytes, in hex, of each token that is not whole characters."
    )
    advantage: float | None = Field(
        None, description="Of each of these tokens, once they are trained."
    )


class TokenTimeline(Response):
    """A token sequence that calls of an episode merged into, in runs. A page may hold a part of
    it.
    """

    index: int
    agent: str | None
    tokens: int = Field(description="Of the whole timeline.")
    runs: list[TokenRun]


class TrajectoryAnswer(Response):
    """An answer of a call, and where its tokens are."""

    index: int
    message: dict[str, Any]
    finish_reason: str | None
    timeline: int | None = Field(
        description="Index of the timeline that has its tokens; null where none was sampled."
    )
    start: int = Field(
        0, description="The position of its first token there: all before it is the call's prompt."
    )
    tokens: int = 0
    token_ids: list[int] = Field(
        [], description="Like the next two: of an answer that no timeline has."
    )
    logprobs: list[float] = []
    policy_versions: list[int] = []


class TrajectoryCall(Response):
    """One LLM request of an episode. ``messages`` are those that the call it continues has not."""

    id: str
    status: Literal["completed", "cancelled"]
    agent: str | None
    begun_at: float = Field(description="Unix time in seconds.")
    ended_at: float
    options: dict[str, Any] = Field(description="The request without its messages.")
    continues: str | None
    messages_from: int
    messages: list[dict[str, Any]]
    drift: DriftPoint | None
    answers: list[TrajectoryAnswer]
    prompt_token_ids: list[int] = Field(
        [], description="Where no timeline holds them: of a cancelled call."
    )


class EpisodeTimelines(Response):
    """``GET /v1/sessions/{id}/episodes/{episode_id}/timelines``: every token with its text, some
    thousands a page.

    ``calls``, ``report`` and ``outline`` are those of the whole episode, on the first page.
    """

    episode: EpisodeView
    report: EpisodeReport | None = None
    calls: list[TrajectoryCall] = []
    outline: EpisodeOutline | None = None
    timelines: list[TokenTimeline]
    next_cursor: str | None = None


class GroupView(Response):
    """The episodes that share a baseline: of one task in one step, or waiting for their step."""

    group_key: str
    task: str | None
    step: int | None = Field(description="That trained it; null while it waits.")
    count: int
    reward_mean: float | None
    reward_std: float | None = Field(description="With divisor n.")
    has_signal: bool = Field(
        description="Whether rewards differ: a group whose rewards are equal teaches nothing."
    )
    episodes: list[EpisodeView]


class GroupList(Response):
    """``GET .../groups``: one page, the newest first."""

    items: list[GroupView]
    next_cursor: str | None = None


class StepView(Response):
    """``GET .../steps/{step}``: what one optimizer step measured, and the groups that it was made
    of.
    """

    step: int
    metrics: dict[str, Any] | None = Field(
        description="StepMetrics; null for a step that was refused."
    )
    at: str | None = Field(description="When it was recorded.")
    refused: list[Event] = Field(description="Attempts at this step that changed no weights.")
    groups: list[GroupView]
    previous: int | None = Field(description="The recorded step before it.")
    next: int | None
