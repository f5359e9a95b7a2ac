"""What this process counts for Prometheus. Served, with what the database knows, by console.scrape."""

from prometheus_client import Counter, Gauge, Histogram

REQUESTS = Counter("tinkerscript_http_requests", "HTTP requests answered.", ["route", "method", "status"])
REQUEST_S = Histogram(
    "tinkerscript_http_request_seconds",
    "From the request to the end of the answer, or of its headers where it is streamed.",
    ["route"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
RELAY_REQUESTS = Counter("tinkerscript_relay_requests", "LLM calls answered by the relay.", ["status"])
RELAY_IN_FLIGHT = Gauge("tinkerscript_relay_in_flight", "LLM calls that the relay is carrying now.")
RELAY_BYTES = Counter("tinkerscript_relay_bytes", "Bytes of bodies that the relay carried.", ["direction"])
WEBSOCKET_CLIENTS = Gauge("tinkerscript_websocket_clients", "Clients that follow a session on a websocket now.")

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def request_count(*, route: str, method: str, status: int, seconds: float) -> None:
    """Count one answer. ``route`` is the pattern of the address, never the address: those are without number."""
    REQUESTS.labels(route, method if method in METHODS else "other", status).inc()
    REQUEST_S.labels(route).observe(seconds)
