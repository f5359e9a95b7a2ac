"""What a prefix cache had of a prompt stands in the usage of every dialect, as the engine counted
it, and the counts of each dialect add up to the whole prompt."""

import json
from typing import Any

import httpx
import pytest

from support.gateway_harness import MODEL, Gateway

CACHED = 3
TURNS = [{"role": "user", "content": "What is two plus two?"}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": TURNS, "stream_options": {"include_usage": True}},
    "/v1/completions": {"prompt": "two plus two", "stream_options": {"include_usage": True}},
    "/v1/responses": {"input": TURNS},
    "/v1/messages": {"messages": TURNS, "max_tokens": 8},
}


def counted(path: str, answer: httpx.Response, *, stream: bool) -> tuple[int, int]:
    """Tokens of the whole prompt, and those of them that were cached."""
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
    bodies = [json.loads(line) for line in lines] if stream else [answer.json()]
    bodies = [body.get("response", body) for body in bodies]
    usage = next(body["usage"] for body in reversed(bodies) if body.get("usage"))
    if path == "/v1/messages":
        cached = usage["cache_read_input_tokens"]
        return usage["input_tokens"] + cached, cached
    name = "input_tokens" if path == "/v1/responses" else "prompt_tokens"
    return usage[name], usage[f"{name}_details"]["cached_tokens"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", BODIES)
async def test_the_usage_of_every_dialect_has_what_was_cached(
    gateway: Gateway, path: str, stream: bool
) -> None:
    body = {"model": MODEL, "stream": stream} | BODIES[path]
    if not stream:
        body.pop("stream_options", None)
    begun = await gateway.begin()
    key = {"Authorization": f"Bearer {begun['api_key']}"}
    for cached in (0, CACHED):
        gateway.engine.cached_tokens = cached
        answer = await gateway.http.post(path, json=body, headers=key)
        assert answer.status_code == 200, answer.text
        whole = len(gateway.engine.requests[-1].prompt_ids)
        assert whole > CACHED and counted(path, answer, stream=stream) == (whole, cached)


async def test_prompts_of_one_request_are_added_up(gateway: Gateway) -> None:
    gateway.engine.cached_tokens = CACHED
    client = gateway.openai(await gateway.begin())
    answer = await client.completions.create(model=MODEL, prompt=["one two", "three four"])
    assert answer.usage.prompt_tokens_details.cached_tokens == 2 * CACHED


async def test_of_several_answers_the_least_that_was_cached_counts(gateway: Gateway) -> None:
    begun, seen = await gateway.begin(), iter((5, 3))

    async def reach(_: str) -> None:
        gateway.engine.cached_tokens = next(seen)

    gateway.engine.reach = reach
    answer = await gateway.chat(begun, n=2)
    assert answer.usage.prompt_tokens_details.cached_tokens == 3
