"""Whether processes of the server do their work, each asked from outside within a deadline of its
own.
"""

from django.conf import settings
from django.db import DatabaseError, close_old_connections

from console.config.full_disk import database_is_full, is_full
from console.scheduling.leader import leader_status
from console.server.web_processes import url_responds

PROBE_TIMEOUT_S = 10.0


def server_responds(*, timeout_s: float = PROBE_TIMEOUT_S) -> bool:
    """Whether what listens on the server's port does."""
    return url_responds(f"{settings.INTERNAL_URL}/healthz", timeout_s=timeout_s)


def reconciler_leads() -> bool:
    """Whether some reconciler renews its lease; another server's, which shares the database, is as
    good. On a full disk none can, and a new one could no more.
    """
    try:
        close_old_connections()
        return leader_status() is not None or is_full() or database_is_full()
    except DatabaseError:
        return True  # a database that is away is not the reconciler's fault
