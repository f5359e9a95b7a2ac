"""Django looks for models here; each domain folder keeps its own."""

from console.audit.models import AuditHead, AuditRecord
from console.live.models import EventRecord
from console.scheduling.models import Drain, LeaderLease
from console.sessions.models import ArchivePart, Checkpoint, Removal, RuntimeSpan, Session, Upload
from console.users.models import ApiKey, KeptAnswer, Membership, Project, User
from console.webhooks.models import Delivery, Webhook

__all__ = [
    "ApiKey",
    "ArchivePart",
    "AuditHead",
    "AuditRecord",
    "Checkpoint",
    "Delivery",
    "Drain",
    "EventRecord",
    "KeptAnswer",
    "LeaderLease",
    "Membership",
    "Project",
    "Removal",
    "RuntimeSpan",
    "Session",
    "Upload",
    "User",
    "Webhook",
]
