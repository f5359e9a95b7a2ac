"""TinkerScript: reinforcement fine-tuning of all of an LLM's weights, for the agent loop that you already have."""

from .async_client import AsyncTinkerScript
from .client import TinkerScript
from .downloads.checkpoints import TunedModel
from .episodes.async_episode import AsyncEpisode
from .episodes.episode import Episode
from .errors import (
    AuthenticationError,
    BeginWouldBlock,
    CheckpointFailed,
    ClientClosed,
    Conflict,
    DiskFull,
    DownloadCorrupt,
    DownloadFailed,
    EmptyEpisode,
    EpisodeClosed,
    IdempotencyMismatch,
    IncompatibleServer,
    InternalError,
    InvalidRequest,
    InvalidReward,
    JudgeFailed,
    NoOpenEpisode,
    NotFound,
    PathInUse,
    PermissionDenied,
    RateLimited,
    ServerUnreachable,
    SessionEnded,
    SessionFailed,
    SessionNotReady,
    StaleLease,
    StorageUnavailable,
    TinkerScriptError,
    UnexpectedAnswer,
    UnknownBaseModel,
    UnknownOption,
    WaitTimeout,
)
from .judge import LlmJudge
from .reports import Report
from .sessions.session import Session
from .wire.config import SessionConfig
from .wire.episodes import WorkflowOutput
from .wire.sessions import Budget
from .wire.version import VERSION as __version__

__all__ = [
    "AsyncEpisode",
    "AsyncTinkerScript",
    "AuthenticationError",
    "BeginWouldBlock",
    "Budget",
    "CheckpointFailed",
    "ClientClosed",
    "Conflict",
    "DiskFull",
    "DownloadCorrupt",
    "DownloadFailed",
    "EmptyEpisode",
    "Episode",
    "EpisodeClosed",
    "IdempotencyMismatch",
    "IncompatibleServer",
    "InternalError",
    "InvalidRequest",
    "InvalidReward",
    "JudgeFailed",
    "LlmJudge",
    "NoOpenEpisode",
    "NotFound",
    "PathInUse",
    "PermissionDenied",
    "RateLimited",
    "Report",
    "ServerUnreachable",
    "Session",
    "SessionConfig",
    "SessionEnded",
    "SessionFailed",
    "SessionNotReady",
    "StaleLease",
    "StorageUnavailable",
    "TinkerScript",
    "TinkerScriptError",
    "TunedModel",
    "UnexpectedAnswer",
    "UnknownBaseModel",
    "UnknownOption",
    "WaitTimeout",
    "WorkflowOutput",
    "__version__",
]
