"""What a heartbeat says of the runtime's machine, with what the session has in the object store."""

from console.live.resources import is_due, resources_record
from console.sessions.limits.quotas import session_stored_bytes
from console.sessions.models import Session
from console.sessions.raised_alerts import alert_raise, alerts_close
from tinkerscript.wire.reading.alerts import AlertRule
from tinkerscript.wire.reading.resources import ResourceSample

SHORT_SHARE = 0.03  # of a disk that is free: the embedded object store stops at 0.01
MACHINE = "machine"  # what the alert is about


def sample_record(*, session: Session, sample: ResourceSample | None) -> None:
    """Keep the sample, where there is one and the last is old enough. The caller holds the
    session's row.
    """
    if sample is None or not is_due(session_id=session.id):
        return
    stored_bytes = session_stored_bytes(session=session)
    before = resources_record(session_id=session.id, sample=sample, store_bytes=stored_bytes)
    was_short = before is not None and _is_short(before)
    if _is_short(sample) and not was_short:
        free, total = (
            f"{size / (1 << 30):.3g} GiB"
            for size in (sample.disk_free_bytes, sample.disk_total_bytes)
        )
        text = f"The disk of its runtime's machine is nearly full: {free} free of {total}."
        alert_raise(session=session, rule=AlertRule.DISK, subject=MACHINE, text=text)
    if was_short and not _is_short(sample):
        alerts_close(session.alerts.filter(rule=AlertRule.DISK, subject=MACHINE))


def _is_short(sample: ResourceSample) -> bool:
    return sample.disk_free_bytes < SHORT_SHARE * sample.disk_total_bytes
