"""Traces of OpenTelemetry in our own processes: off until ``tracing_begin``, and then every
``span`` is exported.

A call is one trace through relay, gateway and engine. The W3C header ``traceparent`` carries it
between processes, and from a client that traces by itself. Nothing here is needed by a client;
OpenTelemetry is imported when it begins.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

END_S = 2.0
TRACES_PATH = "/v1/traces"  # of OTLP over HTTP
_provider: "TracerProvider | None" = None


def tracing_begin(url: str, service: str) -> None:
    """Export the spans of this process, as ``service``, to the collector at ``url`` (OTLP over
    HTTP), in batches.

    A collector that is away costs the spans and a line in the log. OTEL_TRACES_SAMPLER and its
    argument say which share of the traces is kept, as OpenTelemetry documents them.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    global _provider
    tracing_end()
    _provider = TracerProvider(
        resource=Resource.create({"service.name": service}), shutdown_on_exit=False
    )
    _provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(endpoint=url + TRACES_PATH, timeout=END_S))
    )


def tracing_end() -> None:
    """Export what is left within END_S, and no more. Does nothing where nothing is traced."""
    global _provider
    if _provider is not None:
        provider, _provider = _provider, None
        # It waits for a collector that is away: in a thread that no end of a process waits for.
        last = threading.Thread(target=provider.shutdown, name="tracing", daemon=True)
        last.start()
        last.join(END_S)


@contextmanager
def span(
    name: str,
    headers: Callable[[], Mapping[str, str]] | None = None,
    **attributes: str | int | float,
) -> Iterator["Span | None"]:
    """The block as a span inside the one around it; None where nothing is traced.

    ``headers`` returns those of a request that this process serves, whose trace it goes on with.
    Exceptions are not kept: their words may be those of a prompt.
    """
    if _provider is None:
        yield None
        return
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = None if headers is None else TraceContextTextMapPropagator().extract(headers())
    kind = SpanKind.INTERNAL if headers is None else SpanKind.SERVER
    tracer = _provider.get_tracer("tinkerscript")
    with tracer.start_as_current_span(
        name,
        context=context,
        kind=kind,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as started:
        yield started


def is_traced() -> bool:
    """Whether this process traces."""
    return _provider is not None


def span_past(name: str, began_at: float, ended_at: float, **attributes: str | int | float) -> None:
    """What another process did, as a span inside the one around this call; times as ``time.time``
    returns them.
    """
    if _provider is None:
        return
    started = _provider.get_tracer("tinkerscript").start_span(
        name, start_time=round(began_at * 1e9), attributes=attributes
    )
    started.end(round(ended_at * 1e9))


def trace_headers() -> dict[str, str]:
    """What a request to another process of ours carries, so that its spans belong to the span
    around this call.
    """
    carrier: dict[str, str] = {}
    if _provider is not None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(carrier)
    return carrier
