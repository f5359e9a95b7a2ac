"""The queue of tasks of a session: what is put there, what a worker leases, how it ends."""

from typing import Annotated, Any

from pydantic import Field

from .base import Request, Response
from .episodes import WorkflowOutput

MAX_ROW_BYTES = 16 << 10
# The name of one group of attempts that are judged together: so much of its task's, the mark, and
# what is its own.
MAX_GROUP_NAME, GROUP_MARK = 500, " #"
MAX_ATTEMPTS = 256  # at one task
TRIES_OF_ATTEMPT = 2  # by one worker, before it gives the group of a judged task to another
MAX_OUTPUTS_BYTES = 1 << 20  # of one judged task
LeaseId = Annotated[str, Field(min_length=1, max_length=64)]
EpisodeId = Annotated[str, Field(min_length=1, max_length=64)]


class TaskRow(Request):
    """One task: ``name`` is the key of its group, ``row`` what the agent is given."""

    name: str = Field(min_length=1, max_length=512)
    row: Any = Field(description="JSON of at most 16 KiB.")


class TasksPut(Request):
    """``POST /v1/sessions/{id}/tasks``: a name that is still to be played is refused."""

    rows: list[TaskRow] = Field(min_length=1, max_length=1000)
    attempts: int = Field(
        1,
        ge=1,
        le=MAX_ATTEMPTS,
        description="Episodes of each task; grpo_n of them make a full group.",
    )
    eval: bool = Field(False, description="Served and counted, never trained.")
    tries: int = Field(
        3, ge=1, le=20, description="How often an attempt is handed out before it counts as failed."
    )
    judged: bool = Field(
        False,
        description="One worker plays all attempts at a task, and its judge rewards them together.",
    )


class TaskFailure(Response):
    """An attempt that will not be tried again."""

    name: str
    error: str


class TaskCounts(Response):
    """``GET /v1/sessions/{id}/tasks``: attempts by where they are."""

    waiting: int = Field(description="Those whose worker's lease has run out among them.")
    running: int
    done: int
    failed: int
    workers: int = Field(description="That hold a lease.")
    waiting_judged: int = Field(
        0, description="Of those that wait: they need a worker with a judge."
    )
    running_judged: int = 0
    failures: list[TaskFailure] = Field([], description="The latest ten.")


class TasksLease(Request):
    """``POST /v1/sessions/{id}/tasks/lease``: keep the leases in ``held`` and take ``count``
    attempts more.
    """

    worker: str = Field(min_length=1, max_length=120, description="Who asks: shown, and counted.")
    count: int = Field(
        ge=0,
        le=256,
        description="Of judged tasks those whose attempts fit; one, be it larger, to a worker that "
        "holds none.",
    )
    held: list[LeaseId] = Field([], max_length=256)
    lease_s: float = Field(
        60, ge=1, le=3600, description="From now; later another worker may take the attempt."
    )
    judged: bool = Field(
        False, description="The worker has a judge: it takes judged tasks, and no others."
    )


class LeasedTask(Response):
    """An attempt to play. ``episode_id`` is that of the worker that had it before: end or abandon
    that one first.

    Of a judged task it is all ``attempts`` at once. ``episode_ids`` are then those of the worker
    before; with ``outputs``, one for each, they had been judged: end them with these.
    """

    task_id: str
    lease: str
    name: str
    row: Any
    eval: bool
    try_number: int = Field(description="From 1.")
    tries: int
    episode_id: str | None = None
    attempts: int = 1
    judged: bool = False
    episode_ids: list[str] = []
    outputs: list[WorkflowOutput] | None = None


class TaskLeases(Response):
    """``lost`` are those of ``held`` that another worker has, or that are over."""

    items: list[LeasedTask]
    lost: list[str]
    others_waiting: int = Field(
        0,
        description="Where this worker has room left: attempts that wait for one with a judge, or "
        "for one without; those at the first 1000 tasks.",
    )


class TaskEpisode(Request):
    """``POST .../tasks/{task_id}/episode``: the episode in which the holder of ``lease`` plays
    it.
    """

    lease: LeaseId
    episode_id: str = Field(min_length=1, max_length=64)


class TaskGroup(Request):
    """``POST .../tasks/{task_id}/group``: the episodes in which the holder of ``lease`` plays a
    judged task.

    ``outputs`` are what its judge made of them, one for each, before the first of them is ended:
    should this worker be lost then, the next one ends them.
    """

    lease: LeaseId
    episode_ids: list[EpisodeId] = Field(
        max_length=TRIES_OF_ATTEMPT * MAX_ATTEMPTS,
        description="Those of failed tries among them: two for each attempt at most. None of them: "
        "it is played anew.",
    )
    outputs: list[WorkflowOutput] | None = Field(
        None,
        max_length=MAX_ATTEMPTS,
        description="JSON of at most 1 MiB. No episode is added after them.",
    )


class TaskFinish(Request):
    """``POST .../tasks/{task_id}/finish``: it is done, or ``error`` says why not; then it is tried
    again.
    """

    lease: LeaseId
    error: str | None = Field(None, max_length=500)
    final: bool = Field(False, description="With an error: no other try can mend it.")


class TaskView(Response):
    """One attempt: ``waiting``, ``running``, ``done`` or ``failed``."""

    task_id: str
    name: str
    state: str
    try_number: int
    tries: int
    episode_id: str | None = None
    error: str = ""
