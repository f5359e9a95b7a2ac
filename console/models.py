"""Django looks for models here; each domain folder keeps its own."""

from console.audit.models import AuditHead, AuditRecord
from console.live.models import EventRecord, LogChunk, ResourceChunk
from console.scheduling.models import Drain, LeaderLease, RestartCount, ServerInstance, WarmRuntime
from console.sessions.alerts.models import MetricRule
from console.sessions.episodes.models import EpisodeAnnotation, EpisodeTextBlock
from console.sessions.models import (
    Alert,
    ArchivePart,
    Checkpoint,
    Device,
    EpisodePack,
    EpisodeRecord,
    Removal,
    RuntimeSpan,
    Session,
    Upload,
    UsageSum,
)
from console.sessions.runtime.models import SessionTurn
from console.sessions.saved_views.models import SavedView
from console.sessions.sharing.models import ShareLink
from console.sessions.tasks.models import QueuedTask
from console.tinker.models import (
    TinkerCall,
    TinkerCheckpoint,
    TinkerModel,
    TinkerRuntime,
    TinkerSampler,
    TinkerSession,
    TinkerTokens,
    TinkerWork,
)
from console.users.models import ApiKey, IdempotencyRecord, Membership, Project, User
from console.webhooks.models import Delivery, Webhook

__all__ = [
    "Alert",
    "ApiKey",
    "ArchivePart",
    "AuditHead",
    "AuditRecord",
    "Checkpoint",
    "Delivery",
    "Device",
    "Drain",
    "EpisodeAnnotation",
    "EpisodePack",
    "EpisodeRecord",
    "EpisodeTextBlock",
    "EventRecord",
    "IdempotencyRecord",
    "LeaderLease",
    "LogChunk",
    "Membership",
    "MetricRule",
    "Project",
    "QueuedTask",
    "Removal",
    "ResourceChunk",
    "RestartCount",
    "RuntimeSpan",
    "SavedView",
    "ServerInstance",
    "Session",
    "SessionTurn",
    "ShareLink",
    "TinkerCall",
    "TinkerCheckpoint",
    "TinkerModel",
    "TinkerRuntime",
    "TinkerSampler",
    "TinkerSession",
    "TinkerTokens",
    "TinkerWork",
    "Upload",
    "UsageSum",
    "User",
    "WarmRuntime",
    "Webhook",
]
