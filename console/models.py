"""Django looks for models here; each domain folder keeps its own."""

from console.live.models import EventRecord
from console.scheduling.models import LeaderLease
from console.sessions.models import Checkpoint, Session, Upload
from console.users.models import ApiKey, KeptAnswer, Membership, Project, User

__all__ = [
    "ApiKey",
    "Checkpoint",
    "EventRecord",
    "KeptAnswer",
    "LeaderLease",
    "Membership",
    "Project",
    "Session",
    "Upload",
    "User",
]
