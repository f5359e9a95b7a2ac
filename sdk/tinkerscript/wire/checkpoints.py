"""Checkpoints and the manifest that makes one exist."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from .base import Request, Response


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

    pinned: bool = Field(description="A pinned checkpoint is kept until it is deleted, whatever its age.")


class ManifestFile(Response):
    """One file of a checkpoint. ``path`` is relative, with forward slashes."""

    path: str
    size_bytes: int = Field(ge=0, le=1 << 46)  # 64 TiB; the sum over all files of an upload fits a column too
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
    created_at: datetime
    committed_at: datetime | None = None


class CheckpointList(Response):
    """Newest first."""

    items: list[CheckpointView]


class DownloadFile(ManifestFile):
    """A file with the presigned URL that serves it (range requests allowed)."""

    url: str


class CheckpointDownload(Response):
    """``GET .../download``: ask again when ``expires_at`` has passed."""

    checkpoint_id: str
    step: int
    files: list[DownloadFile]
    expires_at: datetime
