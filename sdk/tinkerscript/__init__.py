"""TinkerScript: reinforcement fine-tuning of all of an LLM's weights, for the agent loop that you
already have.

A name is imported when it is first used: a server or a runtime needs ``tinkerscript.wire`` alone,
and is spared the client, whose import takes longer than its own.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .wire.version import VERSION as __version__

if TYPE_CHECKING:
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
    from .outputs import WorkflowOutput
    from .reports import Report
    from .serving import ServedModel, serve
    from .sessions.session import Session
    from .wire.config import SessionConfig
    from .wire.sessions import Budget

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
    "ServedModel",
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
    "serve",
]

_ERRORS = "errors"  # the module of every name that is not here
_MODULES = {
    "AsyncEpisode": "episodes.async_episode",
    "AsyncTinkerScript": "async_client",
    "Budget": "wire.sessions",
    "Episode": "episodes.episode",
    "LlmJudge": "judge",
    "Report": "reports",
    "ServedModel": "serving",
    "Session": "sessions.session",
    "SessionConfig": "wire.config",
    "TinkerScript": "client",
    "TunedModel": "downloads.checkpoints",
    "WorkflowOutput": "outputs",
    "serve": "serving",
}


def __getattr__(name: str) -> Any:
    """A public name, from the module that has it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_MODULES.get(name, _ERRORS)}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
