"""With a collector, a call is one trace: what the gateway did for it, under the span of whoever
called.
"""

import asyncio

from support.gateway_harness import Gateway
from support.trace_collector import traced
from tinkerscript.processes.tracing import tracing_end

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


async def test_the_parts_of_a_call_are_spans_of_the_trace_that_its_header_names(
    gateway: Gateway,
) -> None:
    begun = await gateway.begin()
    headers = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
    with traced("runtime") as collector:
        answer = (await gateway.raw_chat(begun["api_key"], headers)).json()
        await asyncio.to_thread(tracing_end)
    served = collector.named("gateway")
    assert (served.service, served.trace_id, served.parent_id) == ("runtime", TRACE, CALLER)
    assert served.attributes["path"] == "/v1/chat/completions"
    for name in ("render", "wait", "sample", "record"):
        assert (collector.named(name).trace_id, collector.named(name).parent_id) == (
            TRACE,
            served.span_id,
        )
    usage, sampled = answer["usage"], collector.named("sample").attributes
    assert (sampled["prompt_tokens"], sampled["sampled_tokens"]) == (
        usage["prompt_tokens"],
        usage["completion_tokens"],
    )
    assert sampled["episode_id"] == begun["episode_id"]


async def test_probes_of_health_are_not_traced(gateway: Gateway) -> None:
    with traced("runtime") as collector:
        await gateway.http.get("/healthz")
        await asyncio.to_thread(tracing_end)
    assert collector.spans == []


async def test_no_span_has_the_words_of_what_failed(gateway: Gateway) -> None:
    begun = await gateway.begin()
    with traced("runtime") as collector:
        refused = await gateway.raw_chat(
            begun["api_key"], messages=[{"role": "user", "content": "hidden " * 2000}]
        )
        await asyncio.to_thread(tracing_end)
    assert refused.status_code == 400
    assert collector.named("gateway").texts == ()
