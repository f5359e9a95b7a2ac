"""What a heartbeat says of the runtime's machine, with what the session has in the object store."""

from console.live.resources import is_due, resources_record
from console.sessions.limits.quotas import session_stored_bytes
from console.sessions.models import Session
from tinkerscript.wire.reading.resources import ResourceSample


def sample_record(*, session: Session, sample: ResourceSample | None) -> None:
    """Keep the sample, where there is one and the last is old enough. The caller holds the session's row."""
    if sample is not None and is_due(session_id=session.id):
        resources_record(session_id=session.id, sample=sample, store_bytes=session_stored_bytes(session=session))
