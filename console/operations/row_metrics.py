"""``/metrics``: what this machine's web processes counted (console.server.metrics), and gauges that
are read from the tables when they are asked for, the same from every web process.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DatabaseError
from django.db.models import Count, Max, Min, Q
from django.utils import timezone
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from console.live.models import EventRecord
from console.object_store.free_space import room_get
from console.scheduling.leader import leader_status
from console.scheduling.models import RestartCount, WarmRuntime
from console.sessions.models import Session
from console.sessions.selectors import session_counts
from console.webhooks.models import Delivery
from tinkerscript.wire.checkpoints import CheckpointKind, CheckpointState
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.sessions import SessionState

STEPS_OF = timedelta(minutes=5)
# the newest of the record: more steps than these in five minutes are not counted
STEPS_READ = 1_000
PHASES = ("rollout", "train", "handover")


class RowMetrics(Collector):
    """What the tables say now. Nothing while the database does not answer."""

    def collect(self) -> Iterator[Metric]:
        with suppress(DatabaseError):
            now = timezone.now()
            yield from _sessions(now)
            yield from _copies(now)
            yield from _steps(now)
            yield from _webhooks(now)
            yield from _reconciler()
            yield from _store()


_rows = CollectorRegistry()
_rows.register(RowMetrics())


def metrics_text() -> bytes:
    """Everything, in Prometheus' text format."""
    counted = REGISTRY
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        counted = CollectorRegistry()
        MultiProcessCollector(counted)
    return generate_latest(counted) + generate_latest(_rows)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tinkerscript_{name}", text, value=value)


def _sessions(now: datetime) -> Iterator[Metric]:
    counts = session_counts()
    sessions = GaugeMetricFamily("tinkerscript_sessions", "Sessions by state.", labels=["state"])
    for state in SessionState:
        sessions.add_metric([state], counts[state])
    yield sessions
    yield _gauge("queue_length", "Sessions that wait for a runtime.", counts[SessionState.QUEUED])
    oldest = Session.objects.filter(state=SessionState.QUEUED).aggregate(at=Min("state_since"))[
        "at"
    ]
    yield _gauge(
        "queue_oldest_seconds", "How long the oldest of them has waited.", _age(oldest, now)
    )
    failed = GaugeMetricFamily(
        "tinkerscript_sessions_failed", "Failed sessions by cause.", labels=["code"]
    )
    rows = Session.objects.filter(state=SessionState.FAILED).order_by().values_list("failure__code")
    for code, count in rows.annotate(Count("id")):
        failed.add_metric([code or "unknown"], count)
    yield failed
    restarts = CounterMetricFamily(
        "tinkerscript_runtime_restarts", "Runtimes started again.", labels=["cause"]
    )
    for cause, total in RestartCount.objects.values_list("cause", "total"):
        restarts.add_metric([cause], total)
    yield restarts
    warm = GaugeMetricFamily(
        "tinkerscript_warm_runtimes", "Runtimes without a session yet.", labels=["state"]
    )
    for is_ready, number in WarmRuntime.objects.values_list("is_ready").annotate(Count("id")):
        warm.add_metric(["ready" if is_ready else "starting"], number)
    yield warm


def _copies(now: datetime) -> Iterator[Metric]:
    """Of the ready session whose last copy is the oldest: what would be lost with its machine."""
    state = Q(checkpoints__kind=CheckpointKind.STATE, checkpoints__state=CheckpointState.COMMITTED)
    journal = Q(uploads__checkpoint=None, uploads__archive__isnull=True)
    ready = Session.objects.filter(state=SessionState.READY)
    for name, column, only in (
        ("state", "checkpoints__committed_at", state),
        ("journal_copy", "uploads__created_at", journal),
    ):
        newest = ready.annotate(at=Max(column, filter=only)).values_list("at", "state_since")
        oldest = min((at or since for at, since in newest), default=None)
        yield _gauge(f"{name}_age_seconds", f"Age of the oldest last {name}.", _age(oldest, now))


def _steps(now: datetime) -> Iterator[Metric]:
    newest = (
        EventRecord.objects.filter(kind=EventKind.METRIC)
        .order_by("-id")
        .values_list("at", "data")[:STEPS_READ]
    )
    steps = [data for at, data in newest if now - at < STEPS_OF]
    tokens = sum(data.get("tokens_trained", 0) for data in steps)
    yield _gauge(
        "trained_tokens_per_second",
        "Over all sessions and five minutes.",
        tokens / STEPS_OF.total_seconds(),
    )
    phases = GaugeMetricFamily(
        "tinkerscript_phase_seconds", "Mean of a step, in five minutes.", labels=["phase"]
    )
    for phase in PHASES:
        if steps:
            phases.add_metric(
                [phase], sum(data.get(f"{phase}_s", 0) for data in steps) / len(steps)
            )
    yield phases


def _webhooks(now: datetime) -> Iterator[Metric]:
    due = Delivery.objects.filter(next_at__lte=now).aggregate(
        count=Count("id"), oldest=Min("next_at")
    )
    yield _gauge("webhook_backlog", "Deliveries that are due.", due["count"])
    yield _gauge(
        "webhook_backlog_seconds", "How long the oldest of them has been.", _age(due["oldest"], now)
    )


def _reconciler() -> Iterator[Metric]:
    if leader := leader_status():
        yield _gauge("reconciler_tick_seconds", "How long its last tick took.", leader.tick_s)
        yield _gauge("reconciler_age_seconds", "Time since its last tick began.", leader.age_s)


def _store() -> Iterator[Metric]:
    if not settings.S3_ENDPOINT_URL:  # of another store only its operator knows
        room = room_get()
        yield _gauge("store_free_bytes", "Free on the disk of the embedded store.", room.free_bytes)
        yield _gauge("store_total_bytes", "The disk of the embedded store.", room.total_bytes)


def _age(at: datetime | None, now: datetime) -> float:
    return 0.0 if at is None else max(0.0, (now - at).total_seconds())
