"""What a runtime and the control plane say to each other. Every message is sent under a lease.

The lease token goes in ``Authorization: Bearer``. 409 ``stale_lease``: another runtime holds the
session, end.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, RootModel

from .base import Request, Response
from .checkpoints import CheckpointKind, ManifestFile
from .config import SessionConfig
from .events import EventKind
from .reading.resources import ResourceSample
from .sessions import Accounting, SessionKind, StartedFrom

# What the columns of the server's database hold, whichever it is.
MAX_COUNT = 2**31
MAX_TIME_S = 2**37  # the year 6325


class StoredFile(Response):
    """A file in the object store with a presigned URL that reads it."""

    path: str
    size_bytes: int
    sha256: str
    url: str


class ResumePoint(Response):
    """A committed checkpoint, and at which step of this session it stands."""

    checkpoint_id: str
    step: int
    files: list[StoredFile]


class Assignment(Response):
    """``POST /v1/runtime/register``: everything a runtime needs to know, and no credential but
    these keys.

    ``episode_signing_key`` (hex) signs this session's episode keys and no other's.
    """

    session_id: str
    kind: SessionKind = SessionKind.EPISODES
    base_model: str
    base_model_path: str = Field(
        description="A folder or Hugging Face id that transformers and vLLM can load."
    )
    config: SessionConfig
    public_url: str = Field(
        description="The origin that clients see; base_url is this plus /openai/v1."
    )
    episode_signing_key: str
    previous_episode_signing_keys: list[str] = Field(
        [],
        description="What signed keys before the server's secret was rotated: they are taken, none "
        "is made.",
    )
    relay_key: str = Field(
        description="What the control plane sends in X-Relay-Key on internal calls."
    )
    lease_seconds: float
    traces_url: str | None = Field(
        None, description="Where the runtime exports spans of OpenTelemetry to."
    )
    resume_from: ResumePoint | None = Field(None, description="The latest `state` of this session.")
    starts_from: ResumePoint | None = Field(
        None, description="Another session's `state`, at step 0 of this one."
    )
    serves: ResumePoint | None = Field(
        None,
        description="In the base model's place: a `model`, or what a Tinker client saved, to be "
        "added to the base.",
    )
    started_from: StartedFrom | None = Field(
        None, description="For the record: the checkpoint that it began from."
    )
    journal_files: list[StoredFile] = Field(
        [],
        description="The last copy of the journal, for a volume that lost its own: a whole file, "
        "then what changed, to be applied in this order.",
    )


# What the phase of a ready runtime that has nothing to do begins with; how far the next batch is
# may follow. Only then may a session be suspended for being idle.
PHASE_WAITING = "waiting for episodes"
PHASE_SERVING = "waiting for calls"  # the same of a session of kind serving
PHASE_TINKER = "waiting for requests"  # the same of a session of kind tinker
# What every phase begins with once this runtime's machine is about to be taken away: its end is no
# failure of its own.
PHASE_PREEMPTED = "this machine is taken away"


class RuntimeStage(StrEnum):
    """Where a runtime is in its life."""

    LOADING = "loading"
    READY = "ready"
    STOPPING = "stopping"


class StopReason(StrEnum):
    """Why a runtime is to end: for good, or until the session is woken."""

    STOP = "stop"
    SUSPEND = "suspend"


MAX_PHASE = 200  # characters


class RuntimeState(Request):
    """One heartbeat. ``progress`` grows whenever real work advances; the control plane watches that
    it does.

    Waiting is work as long as the loop that waits turns.
    """

    state: RuntimeStage
    phase: str = Field("", max_length=MAX_PHASE, description="What it is doing, in words.")
    progress: int = Field(ge=0, lt=2**53)
    address: str = Field(
        "",
        max_length=200,
        description="host:port of the gateway, once it listens. The port alone counts.",
    )
    policy_version: int = Field(0, ge=0, lt=MAX_COUNT)
    reward_mean: float | None = None
    accounting: Accounting = Accounting()
    last_activity_at: float | None = Field(
        None, ge=0, lt=MAX_TIME_S, description="Unix time of the last call, begin or end."
    )
    deadline_s: float | None = Field(
        None,
        ge=0,
        lt=MAX_TIME_S,
        description="How long this phase may go without progress before it counts as stuck.",
    )
    resources: ResourceSample | None = Field(
        None, description="Once per sample: what it uses of its machine."
    )


class CheckpointOrder(Response):
    """A checkpoint that a user asked for and that is not committed yet."""

    checkpoint_id: str
    kind: CheckpointKind


class Orders(Response):
    """The response to a heartbeat: what is wanted now, complete each time, so that a lost response
    costs nothing.
    """

    lease_seconds: float
    stop: StopReason | None = Field(None, description="End when the state is safe.")
    last_try: bool = Field(
        False, description="The session fails if this runtime ends by a fault: no other follows."
    )
    checkpoints: list[CheckpointOrder] = []
    heartbeat_s: float = Field(
        1.0,
        description="So long after this heartbeat the next is due; where there is news, it comes "
        "sooner.",
    )


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


class CheckpointFailure(Request):
    """``POST /v1/runtime/failed-checkpoints``: an ordered checkpoint that cannot be made; the
    session goes on.
    """

    checkpoint_id: str = Field(max_length=40)
    reason: str = Field(max_length=4000)


class _Upload(Request):
    """What will be written."""

    files: list[ManifestFile] = Field(min_length=1, max_length=10_000)


class CheckpointUpload(_Upload):
    """A checkpoint. ``checkpoint_id`` names the order that asked for it; without one a new row is
    made.
    """

    kind: Literal[CheckpointKind.STATE, CheckpointKind.MODEL]
    checkpoint_id: str | None = None
    step: int = Field(0, ge=0, lt=MAX_COUNT)


class JournalUpload(_Upload):
    """A whole copy of the journal, which replaces what is there, or what changed since."""

    kind: Literal["journal"] = "journal"
    files: list[ManifestFile] = Field(min_length=1, max_length=1)
    follows: list[Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] = Field(
        [],
        max_length=100,
        description="SHA-256 of every file that is there and that these changes come after, in "
        "order.",
    )


class ArchiveUpload(_Upload):
    """A part of the archive, which replaces the one of its number."""

    kind: Literal["archive"] = "archive"
    part: int = Field(ge=1, le=999_999, description="Its number; they begin at 1.")
    episodes: int = Field(0, ge=0, lt=MAX_COUNT, description="The episodes in it.")
    files: list[ManifestFile] = Field(min_length=1, max_length=1)


class PackedEpisode(Request):
    """Where the gzipped document of an episode lies in the file."""

    episode_id: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    offset: int = Field(ge=0, le=2**53 - 1)
    size_bytes: int = Field(ge=1, le=2**53 - 1)


class EpisodesUpload(_Upload):
    """Documents of ended episodes (``tinkerscript.wire.reading.trajectories``), one after the other
    in one file.
    """

    kind: Literal["episodes"] = "episodes"
    packed: list[PackedEpisode] = Field(min_length=1, max_length=1000)
    files: list[ManifestFile] = Field(min_length=1, max_length=1)


class DocumentsFind(Request):
    """``POST /v1/runtime/documents``: where are the documents of these episodes?"""

    episode_ids: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]] = Field(
        max_length=500
    )


class DocumentPlace(Response):
    """A gzipped document is these bytes of the object that ``url`` reads."""

    episode_id: str
    url: str
    offset: int
    size_bytes: int


class DocumentPlaces(Response):
    """Those of the episodes that the store has documents of."""

    items: list[DocumentPlace]


AnyUpload = CheckpointUpload | JournalUpload | ArchiveUpload | EpisodesUpload


class UploadOpen(RootModel[Annotated[AnyUpload, Field(discriminator="kind")]]):
    """``POST /v1/runtime/uploads``: say what will be written; be given presigned URLs."""


class UploadFile(Response):
    """Where to PUT one file: ``part_urls`` in order, each of ``part_size_bytes`` except the
    last.
    """

    path: str
    part_size_bytes: int
    part_urls: list[str]
    upload_id: str | None = Field(None, description="Set when there is more than one part.")


class UploadTargets(Response):
    """The response to UploadOpen."""

    upload_id: str
    checkpoint_id: str | None
    files: list[UploadFile]


class UploadedFile(Request):
    """The ETags that the store returned, one per part in order."""

    path: str
    etags: list[str]


class UploadCommit(Request):
    """``POST /v1/runtime/uploads/{upload_id}/commit``: everything is written; publish the
    manifest.
    """

    files: list[UploadedFile]


class UploadCommitted(Response):
    """What was uploaded can be read from now on."""

    checkpoint_id: str | None
