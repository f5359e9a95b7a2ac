"""A collector of OpenTelemetry traces: takes OTLP over HTTP on a free port, and keeps what it was
sent.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tinkerscript.processes.tracing import TRACES_PATH, tracing_begin, tracing_end


@dataclass(frozen=True)
class Kept:
    """A span; ids as hexadecimal digits, an empty ``parent_id`` where the trace begins."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, str | int]
    texts: tuple[str, ...]  # of its status and its events, such as exceptions
    began_at: float  # seconds, as time.time returns them
    ended_at: float


class Collector:
    """``spans`` is what came, in the order of coming."""

    def __init__(self) -> None:
        self.spans: list[Kept] = []

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = next(
                it.value.string_value
                for it in resource.resource.attributes
                if it.key == "service.name"
            )
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                ids = (it.hex() for it in (span.trace_id, span.span_id, span.parent_span_id))
                values = {
                    it.key: it.value.string_value or it.value.int_value for it in span.attributes
                }
                texts = (span.status.message, *(event.name for event in span.events))
                times = (span.start_time_unix_nano / 1e9, span.end_time_unix_nano / 1e9)
                self.spans.append(
                    Kept(service, span.name, *ids, values, tuple(filter(None, texts)), *times)
                )

    def named(self, name: str) -> Kept:
        """The one span of this name."""
        [found] = [span for span in self.spans if span.name == name]
        return found


@contextmanager
def traced(service: str) -> Iterator[Collector]:
    """This process traces inside the block; leave it with ``tracing_end`` to have all that was
    exported.
    """
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == TRACES_PATH
            collector.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    tracing_begin(f"http://127.0.0.1:{server.server_address[1]}", service)
    try:
        yield collector
    finally:
        tracing_end()
        server.shutdown()
        server.server_close()
