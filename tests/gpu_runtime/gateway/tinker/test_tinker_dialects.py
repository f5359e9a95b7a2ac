"""OpenAI's and Anthropic's dialects over the samplers of a Tinker session: the code of episodes,
and nothing kept.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.errors import EngineDead
from gpu_runtime.gateway.tinker.dialects import SamplerSource
from gpu_runtime.interfaces import SamplingOptions
from support.fakes import FakeEngine
from support.light_tokenizer import LightTokenizer
from support.tinker_fakes import FakeSamplerEngine
from support.tinker_harness import KEY, MODEL, SESSION, Open, Wire
from support.tiny_tokenizers import build_tokenizer
from support.waiting import eventually

BASE, TUNED = f"tnk_ab:sample:0:{SESSION}", f"tnk_ab:sample:1:{SESSION}"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


@pytest.fixture
def words(tmp_path: Path) -> FakeEngine:
    build_tokenizer(tmp_path / "tokenizer", "chatml")
    return FakeEngine(LightTokenizer(tmp_path / "tokenizer"), context_length=1024)


async def samplers_make(wire: Wire) -> None:
    """The base model, and a model's present weights."""
    assert (
        await wire.post("/tinker/samplers", {"sampling_session_id": BASE, "base_model": "tiny"})
    ).status_code == 200
    await wire.model()
    saved = await wire.do(
        "save_weights_for_sampler",
        {"model_id": MODEL, "seq_id": 1, "sampling_session_seq_id": 1, "kind": "snapshot"},
    )
    assert saved["sampling_session_id"] == TUNED


async def ask(
    wire: Wire, path: str, sampler_id: str = BASE, key: str = "relay", **body: Any
) -> Any:
    body = {"model": "whatever it was called"} | body
    if not {"prompt", "input"} & set(body):
        body.setdefault("messages", [{"role": "user", "content": "hello"}])
    headers = {"X-Relay-Key": key, "X-Tinker-Sampler": sampler_id}
    return await wire.http.post(path, json=body, headers=headers)


async def test_each_dialect_samples_the_adapter_and_the_base_beside_it(
    wire_open: Open, words: FakeEngine
) -> None:
    async with wire_open(words=words) as wire:
        await samplers_make(wire)
        chat = [
            (await ask(wire, "/v1/chat/completions", sampler, temperature=0)).json()
            for sampler in (BASE, TUNED, BASE)
        ]
        texts = [answer["choices"][0]["message"]["content"] for answer in chat]
        assert texts[0] == texts[2] != texts[1], "an answer is of the weights that were asked for"
        assert chat[0]["model"] == "whatever it was called"
        assert (
            len(chat[0]["choices"][0]["logprobs"]["content"])
            == chat[0]["usage"]["completion_tokens"]
        )
        plain = (
            await ask(wire, "/v1/completions", TUNED, prompt="say", logprobs=2, max_tokens=4)
        ).json()
        assert (
            len(plain["choices"][0]["logprobs"]["top_logprobs"])
            == plain["usage"]["completion_tokens"]
        )
        message = (await ask(wire, "/v1/messages", TUNED, max_tokens=64)).json()
        assert message["content"][0]["type"] == "text" and message["usage"]["output_tokens"] > 0
        counted = (await ask(wire, "/v1/messages/count_tokens", TUNED)).json()
        assert counted["input_tokens"] == message["usage"]["input_tokens"]
        ask_response = {"input": "hello"}
        responded = (await ask(wire, "/v1/responses", TUNED, **ask_response)).json()
        counted = (await ask(wire, "/v1/responses/input_tokens", TUNED, **ask_response)).json()
        assert counted["input_tokens"] == responded["usage"]["input_tokens"]
        assert (await ask(wire, "/v1/tokenize", TUNED, prompt="say")).json()["count"] > 0


async def test_tools_are_honoured_and_a_stream_comes_in_pieces(
    wire_open: Open, words: FakeEngine
) -> None:
    async with wire_open(words=words) as wire:
        await samplers_make(wire)
        words.say(
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>',
            "one two three",
        )
        called = (await ask(wire, "/v1/chat/completions", TUNED, tools=[TOOL])).json()["choices"][0]
        assert called["finish_reason"] == "tool_calls"
        assert json.loads(called["message"]["tool_calls"][0]["function"]["arguments"]) == {
            "city": "Rome"
        }
        assert "get_weather" in words.tokenizer.decode(words.requests[0].prompt_ids), (
            "the model reads of the tool"
        )
        stream = await ask(wire, "/v1/chat/completions", TUNED, stream=True, logprobs=True)
        chunks = [
            json.loads(line[6:]) for line in stream.text.splitlines() if line.startswith("data: {")
        ]
        pieces = [
            choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"]
        ]
        assert "".join(pieces) == "one two three" and len(pieces) > 3


async def test_nothing_is_kept_and_what_training_refuses_is_allowed(
    wire_open: Open, words: FakeEngine
) -> None:
    async with wire_open(words=words) as wire:
        await samplers_make(wire)
        # No temperature and no truncation that a trainer would have to know of is refused: nothing
        # is trained.
        answer = await ask(
            wire, "/v1/chat/completions", TUNED, temperature=0, top_p=0.5, frequency_penalty=1.0
        )
        assert answer.status_code == 200, answer.text
        assert wire.journal.calls.of_episode(TUNED) == []
        assert wire.journal.episodes.page(limit=10) == []


@pytest.mark.parametrize(
    ("path", "sampler", "body", "status", "said"),
    [
        ("/v1/chat/completions", f"tnk_ab:sample:7:{SESSION}", {}, 404, "no sampling session"),
        (
            "/v1/messages",
            f"tnk_ab:sample:7:{SESSION}",
            {"max_tokens": 4},
            404,
            "no sampling session",
        ),
        ("/v1/chat/completions", "", {}, 404, "no sampling session"),
        ("/v1/chat/completions", BASE, {"nonsense": 1}, 400, "nonsense"),
        ("/v1/messages", BASE, {"max_tokens": 4, "nonsense": 1}, 400, "nonsense"),
        ("/v1/completions", BASE, {"prompt": "x " * 3000}, 400, "tokens"),
        (
            "/v1/responses",
            BASE,
            {"messages": None, "input": "x", "previous_response_id": "resp_1"},
            400,
            "resp_1",
        ),
    ],
)
async def test_bad_input_is_refused_in_the_dialect_of_its_path(
    wire_open: Open,
    words: FakeEngine,
    path: str,
    sampler: str,
    body: dict[str, Any],
    status: int,
    said: str,
) -> None:
    async with wire_open(words=words) as wire:
        await samplers_make(wire)
        if "input" in body:
            answer = await wire.http.post(
                path, json={"model": "m", **{k: v for k, v in body.items() if v}},
                headers=KEY | {"X-Tinker-Sampler": sampler},
            )  # fmt: skip
        else:
            answer = await ask(wire, path, sampler, **body)
        error = answer.json()
        assert answer.status_code == status and said in error["error"]["message"], error
        assert (error.get("type") == "error") == (path == "/v1/messages")


async def test_without_the_relay_key_nothing_is_sampled(wire_open: Open, words: FakeEngine) -> None:
    async with wire_open(words=words) as wire:
        await samplers_make(wire)
        for path in ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/tokenize"):
            assert (await ask(wire, path, key="wrong")).status_code == 401
        assert words.requests == []


async def test_a_model_whose_tokenizer_is_missing_refuses_text_and_the_runtime_goes_on(
    wire_open: Open,
) -> None:
    async with wire_open() as wire:  # no tokenizer
        await samplers_make(wire)
        answer = await ask(wire, "/v1/chat/completions")
        assert (
            answer.status_code == 400
            and "cannot be written or read" in answer.json()["error"]["message"]
        )
        assert (await wire.http.get("/healthz")).status_code == 200


async def test_an_engine_that_goes_silent_within_an_answer_counts_as_dead(
    words: FakeEngine,
) -> None:
    words.hang = True
    source = SamplerSource(FakeSamplerEngine(words=words), None, stall_s=0.05)
    with pytest.raises(EngineDead, match="no token"):
        [
            delta
            async for delta in source.generate(
                "one", words.encode("hello"), SamplingOptions(max_tokens=8)
            )
        ]


async def test_two_keys_with_the_same_id_of_a_request_get_a_sample_each(
    wire_open: Open, words: FakeEngine
) -> None:
    words.hang = True
    async with wire_open(words=words) as wire:
        await samplers_make(wire)
        headers = {"X-Relay-Key": "relay", "X-Tinker-Sampler": BASE, "X-Request-Id": "trace"}
        body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}]}
        async with asyncio.TaskGroup() as group:
            for caller in ("key_1", "key_2"):
                sent = wire.http.post(
                    "/v1/chat/completions", json=body, headers=headers | {"X-Tinker-Caller": caller}
                )
                group.create_task(sent)
            await eventually(lambda: len(words.requests) == 2)
            words.released.set()
