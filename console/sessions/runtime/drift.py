"""Telling a project that sampling and training have drifted apart.

``kl_engine`` of a step compares the log-probabilities under which its tokens were sampled with those that the trainer
gives them. Rounding keeps it under 0.01; staleness raises it. Past MAX_ENGINE_GAP the
importance weights of a batch are so uneven that little of it teaches anything.
"""

from collections.abc import Sequence

from console.live.models import EventRecord
from console.sessions.alerts.rules import MAX_ENGINE_GAP
from console.sessions.models import Session
from console.sessions.transitions import session_announce
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.runtime import ReportEntry
from tinkerscript.wire.webhooks import WebhookTopic


def drift_announce(*, session: Session, entries: Sequence[ReportEntry]) -> None:
    """Announce where drift begins among ``entries`` that are new. Call it before they are written."""
    steps = [entry for entry in entries if entry.kind is EventKind.METRIC]
    if not any(entry.data["kl_engine"] > MAX_ENGINE_GAP for entry in steps):
        return
    record = EventRecord.objects.filter(session_id=session.id)
    known = set(record.filter(key__in=[entry.key for entry in steps]).values_list("key", flat=True))
    last = record.filter(kind=EventKind.METRIC).order_by("-id").first()
    was_far = last is not None and last.data["kl_engine"] > MAX_ENGINE_GAP
    for entry in steps:
        if entry.key in known:
            continue
        is_far = entry.data["kl_engine"] > MAX_ENGINE_GAP
        if is_far and not was_far:
            data = {"session_id": session.id, "step": entry.data["step"], "kl_engine": entry.data["kl_engine"]}
            topic = WebhookTopic.TRAINING_DRIFT
            session_announce(session_id=session.id, topic=topic, data=data | {"bound": MAX_ENGINE_GAP})
        was_far = is_far
