"""``/metrics``: what this process counted, and what the database says about sessions and the reconciler at this moment.

The latter is the same from every process, so that it is there however many there are and whichever one is asked.
"""

from collections.abc import Iterator
from contextlib import suppress

from django.db import DatabaseError
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from console.scheduling.leader import leader_pulse
from console.sessions.selectors import session_counts
from tinkerscript.wire.sessions import SessionState


class Rows(Collector):
    """Gauges that are read from the tables."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Sessions by state, the queue, the reconciler's pulse. Nothing while the database does not answer."""
        with suppress(DatabaseError):
            counts = session_counts()
            sessions = GaugeMetricFamily("tinkerscript_sessions", "Sessions by state.", labels=["state"])
            for state in SessionState:
                sessions.add_metric([state], counts[state])
            yield sessions
            yield GaugeMetricFamily(
                "tinkerscript_queue_length", "Sessions that wait for a runtime.", value=counts[SessionState.QUEUED]
            )
            if pulse := leader_pulse():
                yield GaugeMetricFamily(
                    "tinkerscript_reconciler_tick_seconds", "How long its last tick took.", value=pulse.tick_s
                )
                yield GaugeMetricFamily(
                    "tinkerscript_reconciler_age_seconds", "Time since its last tick began.", value=pulse.age_s
                )


_rows = CollectorRegistry()
_rows.register(Rows())


def metrics_text() -> bytes:
    """Everything, in Prometheus' text format."""
    return generate_latest(REGISTRY) + generate_latest(_rows)
