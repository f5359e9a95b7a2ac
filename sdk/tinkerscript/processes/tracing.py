"""Traces of OpenTelemetry in our own processes: off until ``tracing_begin``, and then every ``span`` is exported.

A call is one trace through relay, gateway and engine. The W3C header ``traceparent`` carries it between processes,
and from a client that traces by itself. Nothing here is needed by a client; OpenTelemetry is imported when it begins.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

TRACES_PATH = "/v1/traces"  # of OTLP over HTTP
_provider: "TracerProvider | None" = None


def tracing_begin(url: str, service: str) -> None:
    """Export the spans of this process, as ``service``, to the collector at ``url`` (OTLP over HTTP), in batches.

    A collector that is away costs the spans and a line in the log. OTEL_TRACES_SAMPLER and its argument say which share
    of the traces is kept, as OpenTelemetry documents them.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    global _provider
    tracing_end()
    _provider = TracerProvider(resource=Resource.create({"service.name": service}))
    _provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url + TRACES_PATH)))


def tracing_end() -> None:
    """Export what is left, and no more. Does nothing where nothing is traced."""
    global _provider
    if _provider is not None:
        _provider.shutdown()
        _provider = None


@contextmanager
def span(
    name: str, headers: Mapping[str, str] | None = None, **attributes: str | int | float
) -> Iterator["Span | None"]:
    """The block as a span inside the one around it; None where nothing is traced.

    ``headers``: those of a request that this process serves, whose trace it goes on with.
    """
    if _provider is None:
        yield None
        return
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = None if headers is None else TraceContextTextMapPropagator().extract(headers)
    kind = SpanKind.INTERNAL if headers is None else SpanKind.SERVER
    tracer = _provider.get_tracer("tinkerscript")
    with tracer.start_as_current_span(name, context=context, kind=kind, attributes=attributes) as started:
        yield started


def trace_headers() -> dict[str, str]:
    """What a request to another process of ours carries, so that its spans belong to the span around this call."""
    carrier: dict[str, str] = {}
    if _provider is not None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(carrier)
    return carrier
