"""What a runtime and the control plane say to each other. Every message is sent under a lease.

The lease token goes in ``Authorization: Bearer``; an answer of 409 ``stale_lease`` means that another runtime holds the
session now and this one must end itself.
"""

from typing import Any

from pydantic import Field

from .base import Request, Response
from .checkpoints import CheckpointKind, ManifestFile
from .config import SessionConfig
from .events import EventKind
from .sessions import Accounting


class StoredFile(Response):
    """A file in the object store with a presigned URL that reads it."""

    path: str
    size_bytes: int
    sha256: str
    url: str


class ResumePoint(Response):
    """The latest committed ``state`` checkpoint."""

    checkpoint_id: str
    step: int
    files: list[StoredFile]


class Assignment(Response):
    """``POST /v1/runtime/register``: everything a runtime needs to know, and no credential but these keys.

    ``episode_signing_key`` (hex) signs this session's episode keys and no other's.
    """

    session_id: str
    base_model: str
    base_model_path: str = Field(description="A folder or Hugging Face id that transformers and vLLM can load.")
    config: SessionConfig
    public_url: str = Field(description="The origin that clients see; base_url is this plus /openai/v1.")
    episode_signing_key: str
    previous_episode_signing_keys: list[str] = Field(
        [], description="What signed keys before the server's secret was rotated: they are taken, none is made."
    )
    relay_key: str = Field(description="What the control plane sends in X-Relay-Key on internal calls.")
    lease_seconds: float
    resume_from: ResumePoint | None = None
    journal: StoredFile | None = Field(
        None, description="The last copy of the journal, for a volume that lost its own."
    )


# The phase of a ready runtime that has nothing to do: only then may a session be suspended for being idle.
PHASE_WAITING = "waiting for episodes"


class RuntimeState(Request):
    """One heartbeat. ``progress`` grows whenever real work advances; the control plane watches that it does.

    Waiting is work as long as the loop that waits turns.
    """

    state: str = Field(pattern="^(loading|ready|stopping)$")
    phase: str = Field("", max_length=200, description="What it is doing, in words.")
    progress: int = Field(ge=0)
    address: str = Field("", max_length=200, description="host:port of the gateway, once it listens.")
    policy_version: int = Field(0, ge=0)
    reward_mean: float | None = None
    accounting: Accounting = Accounting()
    last_activity_at: float | None = Field(None, description="Unix time of the last call, begin or end.")


class CheckpointOrder(Response):
    """A checkpoint that somebody asked for and that is not committed yet."""

    checkpoint_id: str
    kind: CheckpointKind


class Orders(Response):
    """The answer to a heartbeat: what is wanted, as a level, so that a lost answer costs nothing."""

    lease_seconds: float
    stop: str | None = Field(None, description='"stop" or "suspend": end when the state is safe.')
    last_try: bool = Field(False, description="The session fails if this runtime ends by a fault: no other follows.")
    checkpoints: list[CheckpointOrder] = []


class ReportEntry(Request):
    """One entry for the session's record. ``key`` makes a repeated report harmless."""

    key: str = Field(min_length=1, max_length=120)
    kind: EventKind
    data: dict[str, Any]


class Report(Request):
    """``POST /v1/runtime/report``."""

    entries: list[ReportEntry] = Field(max_length=500)


class FailureReport(Request):
    """``POST /v1/runtime/fail``: the runtime gives up; the session fails with this cause."""

    code: str = Field(pattern="^[a-z_]{1,60}$")
    cause: str = Field(max_length=4000)
    hint: str = Field("", max_length=1000)


class UploadOpen(Request):
    """``POST /v1/runtime/uploads``: say what will be written; be given presigned URLs.

    ``kind`` is a checkpoint's, ``journal`` or ``archive``. ``checkpoint_id`` answers an order; without it a new row is
    made. A journal and a part of the archive are one file each and belong to no checkpoint.
    """

    kind: str = Field(pattern="^(state|model|journal|archive)$")
    checkpoint_id: str | None = None
    step: int = Field(0, ge=0)
    part: int | None = Field(None, ge=1, le=999_999, description="Of an archive: its number; they begin at 1.")
    episodes: int = Field(0, ge=0, description="Of an archive: the episodes in it.")
    files: list[ManifestFile] = Field(min_length=1, max_length=10_000)


class UploadFile(Response):
    """Where to PUT one file: ``part_urls`` in order, each of ``part_size_bytes`` except the last."""

    path: str
    part_size_bytes: int
    part_urls: list[str]
    upload_id: str | None = Field(None, description="Set when there is more than one part.")


class UploadPlan(Response):
    """The answer to UploadOpen."""

    upload_id: str
    checkpoint_id: str | None
    files: list[UploadFile]


class UploadedFile(Request):
    """The ETags that the store answered, one per part in order."""

    path: str
    etags: list[str]


class UploadCommit(Request):
    """``POST /v1/runtime/uploads/{upload_id}/commit``: everything is written; publish the manifest."""

    files: list[UploadedFile]


class UploadCommitted(Response):
    """What was uploaded can be read from now on."""

    checkpoint_id: str | None
