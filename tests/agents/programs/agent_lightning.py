"""Agent-lightning 0.3: its runner, store, tracer, adapters and proxy, unmodified, with an episode's
URL for a backend.

Usage: agent_lightning.py BASE_URL API_KEY MODEL CASE...; a case is "CALL", "CALL over PROVIDER" (of
Agent-lightning's proxy), or "CALL over PROVIDER spans" (read from the proxy's spans). Prints, by
case, what the adapter recovered: for each triplet its prompt ids, response ids, number of
log-probabilities and reward.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Callable
from typing import Any

import agentlightning as agl
import openai
from pydantic import BaseModel

QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}


class Report(BaseModel):
    text: str


def direct(client: openai.OpenAI, model: str) -> None:
    client.chat.completions.create(model=model, messages=QUESTION)


def asked_for(client: openai.OpenAI, model: str) -> None:
    extra = {"return_token_ids": True}
    client.chat.completions.create(model=model, messages=QUESTION, logprobs=True, extra_body=extra)


def tool(client: openai.OpenAI, model: str) -> None:
    said = (
        client.chat.completions.create(model=model, messages=QUESTION, tools=[TOOL])
        .choices[0]
        .message
    )
    assert said.tool_calls[0].function.name == "get_weather"


def stream(client: openai.OpenAI, model: str) -> None:
    with client.chat.completions.create(model=model, messages=QUESTION, stream=True) as chunks:
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def parse(client: openai.OpenAI, model: str) -> None:
    said = client.chat.completions.parse(model=model, messages=QUESTION, response_format=Report)
    assert isinstance(said.choices[0].message.parsed, Report)


def responses(client: openai.OpenAI, model: str) -> None:
    assert client.responses.create(model=model, input="What is the weather in Paris?").output_text


CALLS: dict[str, Callable[[openai.OpenAI, str], None]] = {
    each.__name__: each for each in (direct, asked_for, tool, stream, parse, responses)
}


def agent_of(call: Callable[[openai.OpenAI, str], None]) -> Any:
    @agl.rollout
    def agent(task: str, llm: agl.LLM) -> float:
        with openai.OpenAI(
            base_url=llm.endpoint, api_key=llm.api_key or "none", max_retries=0
        ) as client:
            call(client, llm.model)
        return 0.5

    return agent


async def play(store: Any, agent: Any, resource: agl.LLM, adapter: Any) -> list[list[Any]]:
    """One rollout, and the triplets that the adapter makes of its spans."""
    runner = agl.LitAgentRunner(tracer=agl.AgentOpsTracer())
    with runner.run_context(agent=agent, store=store):
        rollout = await runner.step("task", resources={"main_llm": resource})
    spans = await store.query_spans(rollout.rollout_id)
    return [
        [
            each.prompt.get("token_ids"),
            each.response.get("token_ids"),
            len(each.response.get("logprobs") or []),
            each.reward,
        ]
        for each in adapter.adapt(spans)
    ]


async def through_proxy(
    backend: agl.LLM, call: Callable[[openai.OpenAI, str], None], provider: str, adapter: Any
) -> list[list[Any]]:
    """The same over the proxy of Agent-lightning, which is a process of its own."""
    server = agl.LightningStoreServer(agl.InMemoryLightningStore(), "127.0.0.1", port_free())
    await server.start()
    model = backend.model
    entry = {
        "model": f"{provider}/{model}",
        "api_base": backend.endpoint,
        "api_key": backend.api_key,
    }
    proxy = agl.LLMProxy(
        host="127.0.0.1", port=port_free(),
        model_list=[{"model_name": model, "litellm_params": entry}], store=server,
        callbacks=["return_token_ids", "logprobs", "opentelemetry"],
    )  # fmt: skip
    await proxy.start()
    try:
        return await play(server, agent_of(call), proxy.as_resource(model=model), adapter)
    finally:
        await proxy.stop()
        await server.stop()


def port_free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def main(base_url: str, api_key: str, model: str, *cases: str) -> None:
    backend, found = agl.LLM(endpoint=base_url, model=model, api_key=api_key), {}
    for case in cases:
        call, _, way = case.partition(" over ")
        provider, _, spans = way.partition(" ")
        adapter = agl.LlmProxyTraceToTriplet() if spans else agl.TracerTraceToTriplet()
        if provider:
            found[case] = await through_proxy(backend, CALLS[call], provider, adapter)
        else:
            found[case] = await play(
                agl.InMemoryLightningStore(), agent_of(CALLS[call]), backend, adapter
            )
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
