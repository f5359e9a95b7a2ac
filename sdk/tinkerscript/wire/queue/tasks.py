"""The queue of tasks of a session: what is put there, what a worker leases, how it ends."""

from typing import Annotated, Any

from pydantic import Field

from ..base import Request, Response

MAX_ROW_BYTES = 16 << 10
LeaseId = Annotated[str, Field(min_length=1, max_length=64)]


class TaskRow(Request):
    """One task: ``name`` is the key of its group, ``row`` what the agent is given."""

    name: str = Field(min_length=1, max_length=512)
    row: Any = Field(description="JSON of at most 16 KiB.")


class TasksPut(Request):
    """``POST /v1/sessions/{id}/tasks``: a name that is still to be played is refused."""

    rows: list[TaskRow] = Field(min_length=1, max_length=1000)
    attempts: int = Field(1, ge=1, le=256, description="Episodes of each task; grpo_n of them make a full group.")
    eval: bool = Field(False, description="Served and counted, never trained.")
    tries: int = Field(3, ge=1, le=20, description="How often an attempt is handed out before it counts as failed.")


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
    failures: list[TaskFailure] = Field([], description="The latest ten.")


class TasksLease(Request):
    """``POST /v1/sessions/{id}/tasks/lease``: keep the leases in ``held`` and take ``count`` attempts more."""

    worker: str = Field(min_length=1, max_length=120, description="Who asks: shown, and counted.")
    count: int = Field(ge=0, le=256)
    held: list[LeaseId] = Field([], max_length=256)
    lease_s: float = Field(60, ge=1, le=3600, description="From now; later another worker may take the attempt.")


class LeasedTask(Response):
    """An attempt to play. ``episode_id`` is that of the worker that had it before: end or abandon that one first."""

    task_id: str
    lease: str
    name: str
    row: Any
    eval: bool
    try_number: int = Field(description="From 1.")
    tries: int
    episode_id: str | None = None


class TaskLeases(Response):
    """``lost`` are those of ``held`` that another worker has, or that are over."""

    items: list[LeasedTask]
    lost: list[str]


class TaskEpisode(Request):
    """``POST .../tasks/{task_id}/episode``: the episode in which the holder of ``lease`` plays it."""

    lease: LeaseId
    episode_id: str = Field(min_length=1, max_length=64)


class TaskFinish(Request):
    """``POST .../tasks/{task_id}/finish``: it is done, or ``error`` says why not; then it is tried again."""

    lease: LeaseId
    error: str | None = Field(None, max_length=500)


class TaskView(Response):
    """One attempt: ``waiting``, ``running``, ``done`` or ``failed``."""

    task_id: str
    name: str
    state: str
    try_number: int
    tries: int
    episode_id: str | None = None
    error: str = ""
