"""``/metrics``: what this machine's web processes counted, and what the database says at this
moment.

The latter is the same from every process, so that it is there however many there are and whichever
one is asked.
"""

import os

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from console.operations.row_metrics import RowMetrics

_rows = CollectorRegistry()
_rows.register(RowMetrics())


def metrics_text() -> bytes:
    """Everything, in Prometheus' text format."""
    counted = REGISTRY
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        counted = CollectorRegistry()
        MultiProcessCollector(counted)
    return generate_latest(counted) + generate_latest(_rows)
