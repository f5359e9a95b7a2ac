"""``/metrics``: what this process counted, and what the database says about sessions and the reconciler at this moment.

The latter is the same from every process, so that it is there however many there are and whichever one is asked.
"""

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

from console.operations.row_metrics import RowMetrics

_rows = CollectorRegistry()
_rows.register(RowMetrics())


def metrics_text() -> bytes:
    """Everything, in Prometheus' text format."""
    return generate_latest(REGISTRY) + generate_latest(_rows)
