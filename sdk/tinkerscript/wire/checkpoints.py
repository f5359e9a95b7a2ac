"""Checkpoints and the manifest that makes one exist."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from .base import Request, Response
from .config import SessionConfig


class CheckpointKind(StrEnum):
    """``state`` resumes (weights and optimizer); ``model`` is a Hugging Face folder."""

    STATE = "state"
    MODEL = "model"


class CheckpointState(StrEnum):
    """A checkpoint is readable only when committed: its manifest is written last."""

    REQUESTED = "requested"
    UPLOADING = "uploading"
    COMMITTED = "committed"
    FAILED = "failed"


class CheckpointCreate(Request):
    """``POST /v1/sessions/{id}/checkpoints``: ask the runtime for one."""

    kind: Literal[CheckpointKind.STATE, CheckpointKind.MODEL] = CheckpointKind.MODEL


class CheckpointUpdate(Request):
    """``PATCH /v1/sessions/{id}/checkpoints/{checkpoint_id}``."""

    pinned: bool = Field(
        description="A pinned checkpoint is kept until it is deleted, whatever its age."
    )


class ManifestFile(Response):
    """One file of a checkpoint. ``path`` is relative, with forward slashes."""

    path: str
    # 64 TiB; the sum over all files of an upload fits a column too
    size_bytes: int = Field(ge=0, le=1 << 46)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class Manifest(Response):
    """The last object written; a reader ignores a checkpoint that has none."""

    checkpoint_id: str
    session_id: str
    kind: CheckpointKind
    step: int
    base_model: str
    files: list[ManifestFile]


class CheckpointView(Response):
    """A checkpoint as a row: what it is and whether it can be read yet."""

    id: str
    session_id: str
    kind: CheckpointKind
    state: CheckpointState
    step: int | None = None
    size_bytes: int | None = None
    pinned: bool = False
    failure: str = ""
    tinker_path: str | None = Field(
        None, description="Of one that a tinker client named: tinker://MODEL/weights/NAME."
    )
    public: bool = Field(
        False, description="Of such a one: whether every project of this server may read it."
    )
    created_at: datetime
    committed_at: datetime | None = None


class CheckpointList(Response):
    """Newest first."""

    items: list[CheckpointView]


class AncestryEnd(StrEnum):
    """What the oldest known ancestor of a checkpoint came from; without ancestors, the checkpoint
    itself.

    ``upload``: files that a Tinker client uploaded. ``unknown``: a state that is not listed, or not
    known any more.
    """

    BASE_MODEL = "base_model"
    UPLOAD = "upload"
    UNKNOWN = "unknown"


class Ancestor(Response):
    """A checkpoint that another one came from."""

    checkpoint_id: str | None = Field(
        description="None: it is not of this project, or is not known any more."
    )
    session_id: str | None
    kind: CheckpointKind | None
    step: int | None
    tinker_path: str | None = Field(None, description="As a Tinker client named it.")
    is_deleted: bool = Field(
        False, description="It is recorded alone: it cannot be downloaded or looked at."
    )


class CheckpointProvenance(Response):
    """``GET .../provenance``: what a checkpoint was made of."""

    checkpoint_id: str
    session_id: str
    session_name: str
    kind: CheckpointKind
    step: int | None
    base_model: str = Field(
        description="Of its session. Its weights began there if ancestry_end says so."
    )
    ancestors: list[Ancestor] = Field(
        description="Saved states that it came from, the latest first, then the checkpoint that "
        "its session began from, and what that came from; 20 at most. Of a Tinker model: the state "
        "that it was created from, and so on."
    )
    ancestry_end: AncestryEnd = Field(description="What the last of these came from.")
    loads_recorded: bool = Field(
        description="False of a Tinker model: what its client loaded later is not recorded."
    )
    config: SessionConfig = Field(
        description="The session's options; resuming with another trainer_ranks changes that one."
    )
    config_sha256: str = Field(
        description="Of these options as JSON, sorted by name, without spaces."
    )
    created_at: datetime
    committed_at: datetime | None
    files: list[ManifestFile] = Field(
        description="As committed: what is downloaded has these hashes."
    )
    hashes_checked: bool = Field(
        description="The server has compared the stored files with the hashes."
    )


class DownloadFile(ManifestFile):
    """A file with the presigned URL that serves it (range requests allowed)."""

    url: str


class CheckpointDownload(Response):
    """``GET .../download``: ask again when ``expires_at`` has passed."""

    checkpoint_id: str
    step: int
    files: list[DownloadFile]
    expires_at: datetime
