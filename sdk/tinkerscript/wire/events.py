"""The session's record: one numbered stream of state changes, metrics, events and logs."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, FiniteFloat

from .base import Request, Response

MAX_TASKS, MAX_METRICS = 200, 100  # of one evaluation
# Before the name of what agents measured themselves, where it stands among the measures of a step.
OWN = "metrics/"


class EventKind(StrEnum):
    """What an entry of the record is about; ``data`` has a fixed shape per kind."""

    STATE = "state"  # {"from", "to", "phase", "reason"}
    METRIC = "metric"  # StepMetrics
    EVENT = "event"  # {"name", ...}: something worth a line in the console
    LOG = "log"  # {"line"}
    EVALUATION = "evaluation"  # Evaluation


class Event(Response):
    """One entry. ``cursor`` grows within a session; ask for those after the last one seen."""

    cursor: int
    kind: EventKind
    at: datetime
    data: dict[str, Any]


class EventPage(Response):
    """Entries in order; ``next_cursor`` is what to pass as ``after`` next time."""

    items: list[Event]
    next_cursor: int
    left_out: int = Field(
        0, description="With spread: how many marks after the cursor are not among the items."
    )


class StepMetrics(Response):
    """One optimizer step, as measured. Times are seconds, norms are L2."""

    step: int
    reward_mean: float
    reward_std: float
    reward_p10: float | None = Field(
        None, description="A tenth of the batch's episodes earned less."
    )
    reward_p50: float | None = None
    reward_p90: float | None = None
    loss: float
    grad_norm: float
    learning_rate: float
    kl_engine: float = Field(
        description="Mean k3 KL from the engine's to the trainer's log-probabilities."
    )
    engine_gap_mean: float | None = Field(
        None,
        description="|trainer - engine| of the log-probabilities of trained tokens before the "
        "step, nats.",
    )
    engine_gap_p50: float | None = Field(None, description="Half of the tokens have a smaller gap.")
    engine_gap_p90: float | None = None
    engine_gap_p99: float | None = None
    engine_gap_max: float | None = None
    engine_gap_far: float | None = Field(
        None, description="Share of tokens whose gap is above 1 nat."
    )
    engine_gap_by_position: list[float | None] | None = Field(
        None, description="The mean gap in each quarter of a sequence's trained tokens."
    )
    engine_gap_by_probability: list[float | None] | None = Field(
        None,
        description="The mean gap of tokens sampled with a probability below 0.01, 0.1, 0.5, and "
        "above.",
    )
    tokens_masked: int = Field(
        0, description="Trained tokens that engine_correction left out of the loss."
    )
    entropy: float = Field(description="Mean negative log-probability of the sampled tokens.")
    clip_fraction: float = Field(
        description="Share of trained tokens that the loss's clip or a bound of engine_correction "
        "changes."
    )
    episodes: int
    groups: int
    groups_skipped: int = Field(
        description="Groups whose rewards were all equal: no gradient in them."
    )
    groups_level: int | None = Field(
        None,
        description="Groups whose episodes were all ended with the same rewards, also where a KL "
        "term or the length of the answers tells them apart.",
    )
    groups_replaced: int = Field(
        0, description="Groups without a gradient that were set aside on the way to this step."
    )
    answers_distinct: float | None = Field(
        None,
        description="Spread of the answers within groups: 0 where all are the same, 1 where no two "
        "are.",
    )
    truncated: float | None = Field(
        None, description="Share of the answers that their length ended: max_tokens."
    )
    grammars_lost: int | None = Field(
        None,
        description="Answers that left their grammar as the runtime follows it: the rest of each "
        "is not trained.",
    )
    entropy_coef: float | None = Field(
        None, description="The weight that the entropy had in the loss."
    )
    kl_coef: float | None = Field(
        None, description="The weight that the KL term had in the loss or in the reward."
    )
    kl_reference: float | None = Field(
        None,
        description="Mean k3 KL of the last update's tokens from the policy to the reference, where "
        "the KL term is in the loss.",
    )
    updates: int = Field(
        1,
        description="Optimizer updates of the step: minibatches times epochs, or fewer by kl_stop.",
    )
    kl_before: float | None = Field(
        None,
        description="Mean k3 KL of the last update's tokens from the policy before the step to the "
        "one then.",
    )
    expert_load: float | None = Field(
        None,
        description="Of a mixture: tokens of a layer's busiest expert over the mean of its experts, "
        "the mean of all layers.",
    )
    router_entropy: float | None = Field(
        None,
        description="Of a mixture: of the softmax over a layer's experts in nats, the mean of "
        "tokens and layers.",
    )
    routing_differs: float | None = Field(
        None,
        description="Of a mixture whose experts of sampling are replayed: the share of them that "
        "the trainer's own routers would not have chosen.",
    )
    tokens_trained: int
    tokens_computed: int
    tokens_repeated: int = Field(
        0,
        description="Of those, prefixes that were computed again, as the model's layers share "
        "none.",
    )
    staleness_max: int
    completion_length_mean: float
    rollout_s: float
    train_s: float
    handover_s: float
    metrics: dict[str, float] = Field(
        {},
        description="Means, over the episodes of the step that have them, of what the agents "
        "measured:"
        " their metrics, reward/<part>, and rewards_by_agent/<agent>. The first fifty by name.",
    )


class TaskScore(Request):
    """What the episodes of one task earned in an evaluation."""

    reward_mean: FiniteFloat
    reward_std: FiniteFloat | None = Field(None, ge=0, description="None of a single one.")
    episodes: int = Field(ge=1, le=2**31 - 1)


class Evaluation(Request):
    """``POST /v1/sessions/{id}/evaluations``: what eval episodes of one policy version earned, for
    the record.
    """

    name: str = Field("eval", min_length=1, max_length=60, description="Of the set of tasks.")
    step: int = Field(ge=0, le=2**31 - 1, description="The policy version that played.")
    reward_mean: FiniteFloat
    reward_std: FiniteFloat | None = Field(
        None, ge=0, description="Of the episodes; none of a single one."
    )
    success_rate: float | None = Field(None, ge=0, le=1, description="Among the episodes that say.")
    episodes: int = Field(ge=1, le=2**31 - 1, description="That ended with a reward.")
    failed: int = Field(
        0, ge=0, le=2**31 - 1, description="That were abandoned, and are in no mean."
    )
    by_task: dict[Annotated[str, Field(max_length=512)], TaskScore] = Field(
        {}, max_length=MAX_TASKS, description="Of a larger set the first tasks by name."
    )
    metrics: dict[Annotated[str, Field(max_length=200)], FiniteFloat] = Field(
        {},
        max_length=MAX_METRICS,
        description="Means of what the agent measured itself: reward/<part> among them.",
    )
