"""Telling a project that sampling and training have drifted apart.

``kl_engine`` of a step compares the log-probabilities under which its tokens were sampled with those that the trainer
gives them. Rounding keeps it under 0.01; staleness raises it. Past MAX_ENGINE_GAP the
importance weights of a batch are so uneven that little of it teaches anything.
"""

from collections.abc import Sequence

from console.live.metric_columns import Step
from console.live.models import EventRecord
from console.sessions.alerts.rules import MAX_ENGINE_GAP
from console.sessions.models import Session
from console.sessions.transitions import session_announce
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.webhooks import WebhookTopic


def drift_announce(*, session: Session, steps: Sequence[Step]) -> None:
    """Announce where drift begins among ``steps``, which are new. Call it before they are written."""
    if not any(step["kl_engine"] > MAX_ENGINE_GAP for step in steps):
        return
    last = EventRecord.objects.filter(session_id=session.id, kind=EventKind.METRIC).order_by("-id").first()
    was_far = last is not None and last.data["kl_engine"] > MAX_ENGINE_GAP
    for step in steps:
        is_far = step["kl_engine"] > MAX_ENGINE_GAP
        if is_far and not was_far:
            data = {"session_id": session.id, "step": step["step"], "kl_engine": step["kl_engine"]}
            topic = WebhookTopic.TRAINING_DRIFT
            session_announce(session_id=session.id, topic=topic, data=data | {"bound": MAX_ENGINE_GAP})
        was_far = is_far
