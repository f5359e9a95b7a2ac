"""Sessions: what a client sends to make one and what it gets back."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from .base import Request, Response
from .checkpoints import CheckpointKind
from .config import SessionConfig


class SessionState(StrEnum):
    """Where a session stands. The allowed moves are one table: console/sessions/states.py."""

    QUEUED = "queued"
    PROVISIONING = "provisioning"
    LOADING = "loading"
    READY = "ready"
    SUSPENDED = "suspended"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """No move leads out of a terminal state."""
        return self in {SessionState.STOPPED, SessionState.FAILED, SessionState.CANCELLED}


class SessionKind(StrEnum):
    """Who drives a session: its episodes, a Tinker client's primitives, or calls of a model that is
    not trained.
    """

    EPISODES = "episodes"
    TINKER = "tinker"
    SERVING = "serving"


class Budget(Request):
    """What a session may use; none means no limit. At a limit it takes a ``model`` checkpoint and
    stops.
    """

    device_s: int | None = Field(
        default=None,
        ge=60,
        le=10**12,
        description="Seconds of its runtimes times their GPUs; a runtime without one counts as "
        "one.",
    )
    wall_s: int | None = Field(
        default=None, ge=60, le=10**12, description="Seconds since it was made, waiting included."
    )
    steps: int | None = Field(
        default=None,
        ge=1,
        le=10**9,
        description="Completed steps. (config.max_steps ends training alone.)",
    )


class SessionCreate(Request):
    """``POST /v1/sessions``, and ``POST /v1/sessions/dry-run`` with the same body."""

    base_model: str = Field(
        min_length=1,
        max_length=400,
        description="A name in the catalogue (GET /v1/base-models), or what this project has "
        "trained: the id of a committed checkpoint (ckp_...), or the path that a Tinker client "
        "saved it under (tinker://...).",
    )
    name: str = Field(
        "", max_length=120, description="What the console calls it; the id when empty."
    )
    config: SessionConfig = SessionConfig()
    priority: int = Field(
        0,
        ge=-100,
        le=100,
        description="Among the project's own queued sessions, higher goes first.",
    )
    budget: Budget = Budget()


# A word or a few: no bar, which stands between tags where they are kept, and no comma, which stands
# between typed ones.
Tag = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=40, pattern=r"^[^|,]+$")
]


class SessionUpdate(Request):
    """``PATCH /v1/sessions/{id}``, in every state: what people write on a session. What is absent
    stays as it is.
    """

    name: str | None = Field(None, max_length=120, description="Empty: its id.")
    tags: list[Tag] | None = Field(
        None, max_length=20, description="All of them; each is kept once."
    )
    notes: str | None = Field(None, max_length=20_000)
    pinned: bool | None = None


class SessionSort(StrEnum):
    """How the list of sessions is sorted."""

    NEWEST = "newest"
    PINNED = "pinned"  # those first, each part newest first
    NAME = "name"
    # like the next ones: the most first, those without it last, each part newest first
    REWARD = "reward"
    STEPS = "steps"
    ACTIVE = "active"  # when its runtime was last used
    DEVICE_TIME = "device_time"  # of all its runtimes: what its cost follows
    MEASURE = "measure"  # of its last step: the one that ``sort_by`` names


class MemoryPlace(Response):
    """Predicted memory of a machine or a GPU, by part. ``total_bytes`` is the sum of the parts."""

    name: str = Field(description="machine, machine 1 of 2, GPU 1 of 4, host.")
    engines: int = Field(
        description="Engines that begin on it; one over several begins on the first."
    )
    ranks: int = Field(description="Ranks of the trainer on it.")
    weights_bytes: int = Field(
        description="The trainer's weights; under ZeRO 3 a part, and what is put together of it at "
        "one time."
    )
    gradient_bytes: int
    optimizer_bytes: int
    reference_bytes: int
    activation_bytes: int = Field(
        description="Of one micro-batch, at most; 0 where the model's shape is not known."
    )
    head_bytes: int = Field(description="Logits and their gradient, at most.")
    handover_bytes: int
    engine_weights_bytes: int
    cache_bytes: int = Field(
        description="Keys and values: on a GPU those of one context, an engine takes what is left."
    )
    process_bytes: int = Field(description="Libraries and buffers, measured.")
    total_bytes: int
    available_bytes: int | None = Field(
        description="What it may use there; None where it is not known."
    )


class MemoryEstimate(Response):
    """Predicted memory of all processes of a session, host and devices together
    (catalogue/memory_estimate.py).
    """

    total_bytes: int
    engines: int = Field(
        1,
        description="At most: one on each GPU that is an engine's. A model that needs several GPUs "
        "has fewer. On CPUs one on each machine.",
    )
    engine_bytes: int = Field(description="Of all engines.")
    trainer_bytes: int = Field(description="Weights and gradients.")
    optimizer_bytes: int
    reference_bytes: int
    handover_bytes: int
    activation_bytes: int = Field(
        description="Of one micro-batch on every rank; 0 where the model's shape is not known."
    )
    head_bytes: int = Field(0, description="Logits and their gradient on every rank, at most.")
    process_bytes: int = Field(description="Libraries and buffers, measured.")
    places: list[MemoryPlace] = Field([], description="Of what each machine or GPU holds.")


class StartedFrom(Response):
    """The checkpoint that a session began from. It is recorded for good; the checkpoint may be
    deleted later.

    Of a ``model``, and of what a Tinker client saved, come the weights alone; of another ``state``
    the optimizer's moments too. Steps count from 0 again.
    """

    checkpoint_id: str
    session_id: str
    kind: CheckpointKind
    step: int
    tinker_path: str | None = Field(None, description="As a Tinker client named it.")


class SessionPlan(Response):
    """What would be started. ``config`` is the effective one: every option with the value that it
    would have.
    """

    base_model: str = Field(
        description="In the catalogue. Of a session that begins from a checkpoint, that one's own."
    )
    started_from: StartedFrom | None = None
    config: SessionConfig
    memory: MemoryEstimate | None = Field(
        None, description="None where the model's size is not known."
    )
    memory_limit_bytes: int | None = Field(
        None, description="What one runtime may use; None where it is not known."
    )
    queue_position: int = Field(description="Where it would stand now; 1 is next.")
    prefixes: str | None = Field(
        None,
        description="That the model's layers share no prefixes, why, and what it costs; None where "
        "they do.",
    )
    quantised: str | None = Field(
        None,
        description="That the model's folder is quantised, and that its weights are computed in full "
        "before they are trained; None of any other.",
    )
    experts: str | None = Field(
        None,
        description="Of a mixture of experts: how many of its weights compute a token; None of any "
        "other model.",
    )


class Failure(Response):
    """Why a session failed: a stable code, what happened, what to do, and the last lines of its
    runtime.
    """

    code: str
    cause: str
    hint: str = ""
    log: list[str] = Field(
        [], description="What its runtime wrote last, oldest first; none: it failed without one."
    )


class Accounting(Response):
    """Where every begun episode went. ``begun`` equals the sum of all the others; ``abandoned`` is
    split by reason.
    """

    begun: int = 0
    open: int = 0
    waiting: int = 0
    trained: int = 0
    eval: int = 0
    abandoned: int = 0
    expired: int = 0
    stale: int = 0
    abandoned_by_reason: dict[str, int] = {}

    @property
    def balances(self) -> bool:
        """The invariant of the episode ledger."""
        parts = (
            self.open
            + self.waiting
            + self.trained
            + self.eval
            + self.abandoned
            + self.expired
            + self.stale
        )
        return self.begun == parts


class SessionView(Response):
    """What a client may know of a session. ``policy_version`` counts the steps whose weights the
    engine serves.
    """

    id: str
    project_id: str
    kind: SessionKind = SessionKind.EPISODES
    name: str
    base_model: str = Field(
        description="In the catalogue. Of a session that began from a checkpoint, that one's own."
    )
    started_from: StartedFrom | None = Field(None, description="None: from the base model itself.")
    served_checkpoint_id: str | None = Field(
        None, description="Of kind serving: the checkpoint that it serves; none: the base model."
    )
    state: SessionState
    phase: str = Field("", description="What it is doing inside its state, in words.")
    queue_position: int | None = Field(None, description="1 is next; only while queued.")
    failure: Failure | None = None
    config: SessionConfig = Field(
        description="The effective one: every option, also those that were not given."
    )
    decided: list[str] = Field(
        [],
        description="Options of it that have the value which the base model or the loss gives "
        "them: who copies the configuration leaves these out, so that another one gives its own.",
    )
    priority: int = 0
    budget: Budget = Budget()
    policy_version: int = 0
    reward_mean: float | None = Field(None, description="Mean reward of the latest trained batch.")
    measures: dict[str, float] | None = Field(
        None,
        description="Of a list that was asked for them: the measures of its last step, by the "
        "names of columns of GET .../metrics.",
    )
    accounting: Accounting = Accounting()
    restarts: int = Field(
        0, description="How often it lost its runtime and was queued again, ever."
    )
    tags: list[str] = []
    notes: str = ""
    pinned: bool = False
    episodes_removed_at: datetime | None = Field(
        None,
        description="Long after its end: since when the server keeps none of its episodes any "
        "more.",
    )
    created_at: datetime
    updated_at: datetime


class SessionList(Response):
    """One page, newest first."""

    items: list[SessionView]
    next_cursor: str | None = None


class SessionChange(Response):
    """What moves of a session: the fields of SessionView."""

    id: str
    state: SessionState
    phase: str
    queue_position: int | None
    policy_version: int
    reward_mean: float | None
    accounting: Accounting


class SessionChanges(Response):
    """A message of the channel ``/ws/v1/projects/{id}?after=cursor``: which sessions moved, each as
    it is now.

    A cursor is a time. After it at least what changed is told, and maybe what did not.
    """

    items: list[SessionChange]
    next_cursor: int
    is_cut: bool = Field(
        False,
        description="More moved since the cursor than is told: read the list of sessions anew.",
    )


class SessionLogs(Response):
    """What the session's runtime, or its last one, wrote last, oldest first; empty before the
    first.

    With ``after`` what came after that place, in the runtimes that followed too: of the last ten
    the end is kept.
    """

    lines: list[str]
    cursor: str = Field(
        "",
        description="What to pass as ``after`` to go on behind these lines, and those without q.",
    )
    continues: bool = Field(
        False,
        description="The first line is the rest of the last one before it, which was not finished "
        "then.",
    )
    is_cut: bool = Field(
        False, description="Lines between ``after`` and the first of these are not kept any more."
    )


class BaseModelView(Response):
    """A model that a session can start from."""

    name: str
    parameters: int | None = Field(None, description="Number of weights, where known.")
    context_length: int | None = Field(None, description="Longest context in tokens, where known.")
    license: str = ""
    tools: bool | None = Field(None, description="Whether its calls of tools are read, if known.")
    thoughts: bool | None = Field(None, description="Whether its thoughts are read, if known.")
    images: bool | None = Field(
        None, description="Whether it has a tower for images, which exports keep, if known."
    )


class BaseModelList(Response):
    """The base models that this server offers."""

    items: list[BaseModelView]
