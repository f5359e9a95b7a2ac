"""Episodes: begin, end, abandon, and what became of them."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, FiniteFloat

from .base import Request, Response
from .checkpoints import DownloadFile

MAX_HEARTBEATS = 500  # episodes of one request
MAX_RESCORED = 500  # the same
MAX_REFUSED_TOLD = 3  # calls of an episode whose refusals are kept, the last ones
MAX_REFUSED_TEXT = 400  # characters of a message


class EpisodeState(StrEnum):
    """``open`` until the agent or a clock ends it; ``completed`` ones wait, then are trained, eval
    or stale.
    """

    OPEN = "open"
    COMPLETED = "completed"
    ABANDONED = "abandoned"
    EXPIRED = "expired"


class SampleFate(StrEnum):
    """What became of a completed episode."""

    ACCEPTED = "accepted"  # durable, waiting for its group
    TRAINED = "trained"
    EVAL = "eval"
    STALE = "stale"  # too many versions old to be trained


class EpisodeBegin(Request):
    """``POST /v1/sessions/{id}/episodes``. Without ``task`` the group is found by the first call's
    prompt.
    """

    task: str | None = Field(None, min_length=1, max_length=512)
    eval: bool = Field(False, description="Served and counted, never trained.")
    timeout_s: float | None = Field(
        None, ge=1, le=604_800, description="Total deadline; the session's own if absent."
    )
    supersedes: str | None = Field(
        None, max_length=64, description="An open episode of this caller to abandon first."
    )


class EpisodeBegun(Response):
    """The key is good for this episode alone; requests with it return 410 once the episode is
    over.
    """

    episode_id: str
    api_key: str
    base_url: str = Field(description="Constant for a server; give it to any OpenAI client.")
    model: str
    policy_version: int
    idle_timeout_s: float
    deadline_s: float = Field(
        description="Seconds from now until the episode expires, whatever it does."
    )
    max_context_length: int | None = Field(
        None, description="Tokens of a prompt and its answer; null: not known."
    )


class WorkflowOutput(Request):
    """What an agent reports of one run. A reward is a finite number; NaN and infinity are refused.

    ``reward`` is that of the whole run. An agent that ``rewards_by_agent`` names (by its
    ``X-Agent`` label), and a call that ``rewards_by_call`` names, are credited with their own
    instead; a call is named by the ``id`` of its answer (``chatcmpl-...``, ``cmpl-...``,
    ``resp_...``, ``msg_...``) or by the one in ``GET .../calls`` (``call_...``). ``reward_parts``
    says by name what the reward is made of: it trains nothing, and is kept among the metrics.

    Example: ``WorkflowOutput(reward=1.0, is_success=True, metrics={"turns": 3},
    rewards_by_call={completion.id: 0.5})``
    """

    reward: FiniteFloat
    is_success: bool | None = None
    metrics: dict[str, FiniteFloat] = {}
    metadata: dict[str, Any] = {}
    rewards_by_agent: dict[str, FiniteFloat] | None = None
    rewards_by_call: dict[str, FiniteFloat] | None = None
    reward_parts: dict[str, FiniteFloat] = Field(
        default={}, description="Kept as metrics of the names reward/<part>."
    )

    @property
    def measures(self) -> dict[str, float]:
        """The metrics, with those that the parts of the reward are."""
        return {
            **self.metrics,
            **{f"reward/{part}": value for part, value in self.reward_parts.items()},
        }


class EpisodeEnd(Request):
    """``POST /v1/sessions/{id}/episodes/{episode_id}/end``: idempotent, acknowledged once it is on
    disk.
    """

    output: WorkflowOutput


class EpisodeAbandon(Request):
    """``POST .../abandon``: the episode counts as abandoned for ``reason`` and is never trained."""

    reason: str = Field("abandoned", min_length=1, max_length=200)


class EpisodesRescore(Request):
    """``POST /v1/sessions/{id}/rescore``: other rewards for episodes that wait to be trained."""

    rewards: dict[Annotated[str, Field(max_length=64)], FiniteFloat] = Field(
        min_length=1, max_length=MAX_RESCORED, description="By episode."
    )


class RewardChange(Response):
    """An episode's reward that was replaced before it was trained."""

    seq: int = Field(description="Its number among the changes of the session.")
    episode_id: str
    was: float
    reward: float
    at: float = Field(description="Unix time in seconds.")


class EpisodesRescored(Response):
    """Every episode that was named is in one of the three. What is refused keeps its reward."""

    changes: list[RewardChange] = Field(
        description="On disk. Of a request that is sent again: what it changed then."
    )
    unchanged: list[str] = Field(description="They had this reward already.")
    refused: dict[str, str] = Field(description="Why, by episode.")


class EpisodesHeartbeat(Request):
    """``POST /v1/sessions/{id}/heartbeats``: agents work on these episodes, whether or not they
    call the model.
    """

    episode_ids: list[Annotated[str, Field(max_length=64)]] = Field(
        min_length=1, max_length=MAX_HEARTBEATS
    )


class EpisodesHeartbeatResult(Response):
    """What the client should know of the episodes that it named."""

    over: list[str] = Field(
        description="Those that are not open: ended, abandoned, expired or unknown."
    )
    warnings: dict[str, str] = Field(
        description="What looks wrong with how an episode's calls are made, by its id."
    )


class Thumb(StrEnum):
    """What a person thought of an episode."""

    UP = "up"
    DOWN = "down"


class EpisodeAnnotate(Request):
    """``PATCH .../episodes/{episode_id}/annotation``: the caller's own words on it, in the place of
    earlier ones.

    With neither thumb nor comment they are taken back.
    """

    thumb: Thumb | None = None
    comment: str = Field("", max_length=4000)


class EpisodeAnnotation(Response):
    """What one person says of an episode."""

    episode_id: str
    by: str = Field(description="An e-mail address; empty once the person is erased.")
    thumb: Thumb | None
    comment: str
    at: datetime


class AnnotationList(Response):
    """Oldest first."""

    items: list[EpisodeAnnotation]


class RefusedCall(Response):
    """A call that the gateway refused. Nothing was sampled for it."""

    at: float = Field(description="Unix time in seconds.")
    status: int
    path: str = Field(
        max_length=MAX_REFUSED_TEXT, description="With its method, below the episode's base_url."
    )
    message: str = Field(max_length=MAX_REFUSED_TEXT)


class RefusedCalls(Response):
    """What was refused of an episode's calls: how many, and the last messages, of which none
    follows its equal.
    """

    count: int = Field(ge=1, le=2**31 - 1)
    last: list[RefusedCall] = Field(max_length=MAX_REFUSED_TOLD)

    @property
    def sentence(self) -> str:
        """Example: ``26 calls were refused: tools[0] has no name. (400, POST
        /chat/completions)``
        """
        told = "; ".join(
            f"{call.message} ({call.status}, {call.path})" for call in reversed(self.last)
        )
        return f"{self.count} {'call was' if self.count == 1 else 'calls were'} refused: {told}"


class EpisodeView(Response):
    """One episode as the session's journal has it."""

    episode_id: str
    task: str | None
    group_key: str | None
    state: EpisodeState
    fate: SampleFate | None = None
    reason: str | None = Field(None, description="Why it was abandoned, expired, or not trained.")
    eval: bool = False
    reward: float | None = None
    is_success: bool | None = None
    metrics: dict[str, float] = {}
    rewards_by_agent: dict[str, float] | None = None
    rewards_by_call: dict[str, float] | None = Field(
        None, description="By the names it was ended with; not in lists."
    )
    metadata: dict[str, Any] | None = Field(None, description="As it was ended with; not in lists.")
    calls: int = 0
    sampled_tokens: int = 0
    timelines: int | None = Field(
        None, description="Token sequences its calls merged into, once completed."
    )
    policy_version_first: int | None = None
    policy_version_last: int | None = None
    trained_step: int | None = None
    begun_at: float = Field(description="Unix time in seconds, as the next three.")
    deadline_at: float | None = Field(None, description="When it expires whatever it does.")
    agents: list[str] = Field(
        [], description="Labels of its calls; like the next seven, once it has ended."
    )
    drift: int = Field(0, description="Calls that had to begin a new timeline.")
    advantage: float | None = Field(
        None, description="The mean over its calls, once it is trained."
    )
    logprob_mean: float | None = Field(None, description="Of its sampled tokens.")
    ratio_counts: list[int] | None = Field(
        None,
        description="Trained tokens by exp(the trainer's log-probability before the step - the "
        "sampled one), between 0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0001, 1.001, 1.01, "
        "1.05, 1.1, 1.25 and 2; null: none kept.",
    )
    prompt: str = Field(
        "", description="The end of what it was asked: of the first prompt's last message."
    )
    answer: str = Field("", description="The beginning of its last answer.")
    refused: RefusedCalls | None = Field(
        None, description="What was refused of its calls; null: nothing."
    )
    has_tokens: bool = Field(
        False, description="Whether its calls and tokens are in the object store."
    )
    idle_at: float | None = Field(
        None,
        description="When it expires unless a call or heartbeat comes before; null while a call "
        "runs, and in lists.",
    )
    ended_at: float | None = None
    annotations: list[EpisodeAnnotation] = Field(
        [],
        description="Only in lists with a filter or a sort, the newest twenty, and in timelines.",
    )
    warning: str | None = Field(
        None,
        description="What looks wrong with how its calls are made; while it is open and when it is "
        "ended. There also what went wrong in the session's training and was not said before.",
    )


class EpisodeList(Response):
    """One page, newest first."""

    items: list[EpisodeView]
    next_cursor: str | None = None


class EpisodeNeighbours(Response):
    """The ids of the episodes before and after one in a list of the console. None: there is
    none.
    """

    previous: str | None
    next: str | None


class EpisodeFile(DownloadFile):
    """One Parquet file of the archive, a row for each episode; what its columns are is written in
    the file.
    """

    part: int = Field(
        description="Its number, from 1 without a gap. An episode is in one part alone."
    )
    episodes: int


class EpisodeExport(Response):
    """``GET .../episodes/export``: what has been archived; ask again when ``expires_at`` has
    passed.

    An episode is archived once nothing about it can change: with the next checkpoint, when the
    session is suspended or stopped, and when it fails in a way that leaves its runtime the time.
    """

    session_id: str
    episodes: int = Field(description="In all files.")
    files: list[EpisodeFile]
    annotations: list[EpisodeAnnotation] = Field(
        [], description="Of any of its episodes, as they are now: one page, oldest first."
    )
    annotations_cursor: int | None = Field(
        None, description="Of the next page (annotations_after); null: no more."
    )
    expires_at: datetime
