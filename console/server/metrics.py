"""What a web process counts for Prometheus. Served, with what the database knows, by
operations.row_metrics.

Several of one machine count in files of one folder (PROMETHEUS_MULTIPROC_DIR), and each serves the
sums. They are named after the worker, not its pid:
console.server.web_processes.worker_metrics_begin.
"""

from prometheus_client import Counter, Gauge, Histogram

REQUESTS = Counter("tinkerscript_http_requests", "HTTP requests.", ["route", "method", "status"])
REQUEST_S = Histogram(
    "tinkerscript_http_request_seconds",
    "From the request to the end of the response, or of its headers where it is streamed.",
    ["route"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
RELAY_REQUESTS = Counter("tinkerscript_relay_requests", "LLM calls through the relay.", ["status"])
RELAY_FIRST_BYTE_S = Histogram(
    "tinkerscript_relay_first_byte_seconds",
    "From an LLM call's arrival to the head of its response.",
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)
RELAY_IN_FLIGHT = Gauge(
    "tinkerscript_relay_in_flight",
    "LLM calls that the relay is carrying now.",
    multiprocess_mode="livesum",
)
RELAY_BYTES = Counter(
    "tinkerscript_relay_bytes", "Bytes of bodies that the relay carried.", ["direction"]
)
WEBSOCKET_CLIENTS = Gauge(
    "tinkerscript_websocket_clients",
    "Clients that follow a session on a websocket now.",
    multiprocess_mode="livesum",
)
