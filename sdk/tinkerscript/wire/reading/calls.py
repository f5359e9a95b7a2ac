"""The calls of an episode: what the engine read and sampled in each, and how they merged."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from ..base import Response


def is_sampled_raw(options: Mapping[str, Any]) -> bool:
    """Whether a call with these ``options`` was sampled from the model's own distribution, at
    temperature 1 over all ids, so that its log-probabilities are the raw ones. Before a call's
    sampling was kept they always were.
    """
    sampling = options.get("sampling")
    if sampling is None:
        return True
    others = any(
        value
        for name, value in sampling.items()
        if name not in ("temperature", "top_p", "max_tokens")
    )
    # Of greedy tokens an engine gives the log-probabilities of temperature 1.
    return (
        not others
        and sampling.get("temperature", 1.0) in (0.0, 1.0)
        and sampling.get("top_p", 1.0) == 1.0
    )


class DriftPoint(Response):
    """Where a call continues an earlier one in its messages but not in its tokens, so that a new
    timeline began.
    """

    call: str
    continues: str = Field(description="The earlier call.")
    message: int = Field(description="Index in the request of the message at which they part.")
    token: int = Field(0, description="Index of the first token that differs.")
    cause: Literal["client", "template", "gateway"] = Field(
        "template",
        description="What changed it: the client sent the message in another way than it was, the "
        "chat template writes"
        " it differently in history, or the gateway could not reuse the tokens.",
    )
    reason: str
    saw: str = Field(description="What the engine had seen there, a fragment.")
    renders: str = Field(description="What this call's prompt holds there, a fragment.")


class EpisodeReport(Response):
    """What became of an episode's calls as training sees them. A call with ``n`` answers has ``n``
    completions.
    """

    calls: int
    cancelled_calls: int = Field(description="Generation did not finish; never trained.")
    completions: int
    timelines: int = Field(description="Token sequences that the completions merge into.")
    merged_share: float = Field(
        description="Completions that needed no timeline of their own, from 0 to 1."
    )
    agents: list[str] = Field(description="The labels that calls were made under.")
    drift: list[DriftPoint]


class SampledAnswer(Response):
    """One answer of a call, token by token: the four lists have the same length."""

    index: int
    message: dict[str, Any]
    finish_reason: str | None
    token_ids: list[int]
    logprobs: list[float] = Field(
        description="Natural logarithms of the distribution that each token was sampled from, "
        "which is what training compares with: after the temperature (options.sampling), top_p, "
        "and what a response_format or a forced tool call allows."
    )
    raw_logprobs: list[float] | None = Field(
        None,
        description="The model's own, at temperature 1 over all token ids; null where they were "
        "not recorded: of a call that is not trained or was recorded before they were, if sampling "
        "changed the distribution.",
    )
    policy_versions: list[int] = Field(
        description="The policy version whose weights sampled each token."
    )


class CallView(Response):
    """One LLM request of an episode. ``messages`` are those that the call it continues has not."""

    id: str = Field(
        description="call_X; its answer's id was the same X behind chatcmpl-, cmpl-, resp_ or msg_."
    )
    status: Literal["completed", "cancelled"]
    agent: str | None
    begun_at: float = Field(description="Unix time in seconds.")
    ended_at: float
    options: dict[str, Any] = Field(description="The request without its messages.")
    continues: str | None = Field(
        description="The call whose prompt and answer this one's prompt starts with."
    )
    messages_from: int = Field(
        description="How many of the request's messages are left out of `messages`."
    )
    messages: list[dict[str, Any]]
    drift: DriftPoint | None
    prompt_token_ids: list[int]
    completions: list[SampledAnswer]


class EpisodeCalls(Response):
    """``GET /v1/sessions/{id}/episodes/{episode_id}/calls``: one page in the order of recording;
    the whole's report.
    """

    report: EpisodeReport
    items: list[CallView]
    next_cursor: str | None = None
