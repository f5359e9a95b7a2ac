"""What lm-eval asks for: log-probabilities of the prompt, echoed, of several prompts at once; ids
of a text.
"""

from typing import Any

import pytest

from support.gateway_harness import MODEL, Gateway

HELLO = [{"role": "user", "content": "hello"}]


async def raw(
    gateway: Gateway, begun: dict[str, Any], path: str = "/v1/completions", **body: Any
) -> Any:
    headers = {"Authorization": f"Bearer {begun['api_key']}"}
    return await gateway.http.post(path, json={"model": MODEL} | body, headers=headers)


async def test_loglikelihood_of_several_prompts_as_lm_eval_asks_for_it(gateway: Gateway) -> None:
    """The harness sends ids and reads ``token_logprobs[context:-1]`` of each choice, and the greedy
    token beside it.
    """
    begun = await gateway.begin(eval=True)
    prompts = [gateway.engine.encode(text) for text in ("the quick brown fox", "the lazy dog")]
    asked = {"max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True, "seed": 1234}
    body = (await raw(gateway, begun, prompt=prompts, **asked)).json()
    assert [choice["index"] for choice in body["choices"]] == [0, 1]
    for choice, prompt in zip(body["choices"], prompts, strict=True):
        told = choice["logprobs"]
        assert {len(told[name]) for name in told} == {len(prompt) + 1}, (
            "the prompt and the one token that was sampled"
        )
        assert told["token_logprobs"][0] is None
        assert told["token_logprobs"][1:-1] == [
            -0.5 - position for position in range(1, len(prompt))
        ]
        for token, top in zip(told["tokens"][1:-1], told["top_logprobs"][1:-1], strict=True):
            assert max(top, key=top.get) == token
        assert choice["text"].startswith(gateway.renderer.decode(prompt))
        offsets = told["text_offset"]
        assert [choice["text"][a:b] for a, b in zip(offsets, offsets[1:], strict=False)] == told[
            "tokens"
        ][:-1]
    assert body["usage"]["prompt_tokens"] == sum(map(len, prompts))
    calls = gateway.journal.calls.of_episode(begun["episode_id"])
    assert {choice["call_id"].removeprefix("cmpl-") for choice in body["choices"]} == {
        call.id.removeprefix("call_") for call in calls
    }, "a call of its own for each prompt"


async def test_several_prompts_with_several_answers_are_in_order_and_replayed(
    gateway: Gateway,
) -> None:
    begun = await gateway.begin()
    headers = {"Authorization": f"Bearer {begun['api_key']}", "X-Request-Id": "r1"}
    body = {"model": MODEL, "prompt": ["fox", "dog", "the"], "n": 2, "max_tokens": 4}
    first = await gateway.http.post("/v1/completions", json=body, headers=headers)
    assert [choice["index"] for choice in first.json()["choices"]] == list(range(6))
    again = await gateway.http.post("/v1/completions", json=body, headers=headers)
    assert [c["text"] for c in again.json()["choices"]] == [
        c["text"] for c in first.json()["choices"]
    ]
    assert len(gateway.engine.requests) == 6, "a repeated id is answered from the record"


async def test_one_bad_prompt_of_several_refuses_all(gateway: Gateway) -> None:
    begun = await gateway.begin()
    refused = await raw(gateway, begun, prompt=["fox", "dog " * 600])
    assert (
        refused.status_code == 400 and refused.json()["error"]["code"] == "context_length_exceeded"
    )
    refused = await raw(gateway, begun, prompt=["fox", ""])
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "prompt"


async def test_echo_alone_returns_the_text_before_the_answer(gateway: Gateway) -> None:
    gateway.engine.say("fox")
    body = (await raw(gateway, await gateway.begin(), prompt="the quick ", echo=True)).json()
    assert body["choices"][0]["text"] == "the quick fox" and body["choices"][0]["logprobs"] is None
    assert gateway.engine.requests[0].options.prompt_logprobs is None


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
async def test_logprobs_of_the_prompt_as_vllm_shows_them(gateway: Gateway, path: str) -> None:
    asked: dict[str, Any] = (
        {"prompt": "the fox"} if path == "/v1/completions" else {"messages": HELLO}
    )
    body = (await raw(gateway, await gateway.begin(), path, prompt_logprobs=0, **asked)).json()
    told = (body["choices"][0] if path == "/v1/completions" else body)["prompt_logprobs"]
    ids = gateway.engine.requests[0].prompt_ids
    assert told[0] is None and [list(entry) for entry in told[1:]] == [
        [str(token)] for token in ids[1:]
    ]
    assert told[1][str(ids[1])]["logprob"] == -1.5


@pytest.mark.parametrize(
    "options", [{"echo": True}, {"prompt_logprobs": 1}, {"prompt": ["a", "b"]}]
)
async def test_a_stream_cannot_carry_them_and_says_so(
    gateway: Gateway, options: dict[str, Any]
) -> None:
    refused = await raw(
        gateway, await gateway.begin(), **({"prompt": "fox"} | options), stream=True
    )
    assert refused.status_code == 400 and "stream: false" in refused.json()["error"]["message"]
    assert gateway.engine.requests == []


async def test_tokenize_gives_the_ids_that_the_engine_would_read(gateway: Gateway) -> None:
    begun = await gateway.begin()
    counted = (
        await raw(gateway, begun, "/v1/tokenize", messages=HELLO, return_token_strs=True)
    ).json()
    await gateway.chat(begun)
    assert tuple(counted["tokens"]) == gateway.engine.requests[0].prompt_ids
    assert counted["count"] == len(counted["tokens"]) and counted["max_model_len"] == 512
    plain = (await raw(gateway, begun, "/v1/tokenize", prompt="the quick fox")).json()
    assert plain["tokens"] == gateway.engine.encode("the quick fox") and plain["token_strs"] is None
    back = await raw(gateway, begun, "/v1/detokenize", tokens=counted["tokens"])
    assert back.json()["prompt"] == "".join(counted["token_strs"])


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("/v1/tokenize", {}, "prompt or messages"),
        ("/v1/tokenize", {"prompt": "x", "messages": HELLO}, "prompt or messages"),
        ("/v1/tokenize", {"prompt": "x", "made_up": 1}, "made_up"),
        ("/v1/detokenize", {"tokens": [10**9]}, "token ids"),
    ],
)
async def test_what_cannot_be_tokenized_is_refused(
    gateway: Gateway, path: str, body: dict[str, Any], named: str
) -> None:
    refused = await raw(gateway, await gateway.begin(), path, **body)
    assert refused.status_code == 400 and named in refused.json()["error"]["message"]


@pytest.mark.parametrize("before", ["/v1", ""])
async def test_a_remote_tokenizer_reads_what_it_needs(gateway: Gateway, before: str) -> None:
    """lm-eval's: it cuts /v1/completions off the base URL, encodes without special tokens, and
    renders by itself.
    """
    begun = await gateway.begin(eval=True)
    assert (await gateway.http.get(f"{before}/tokenizer_info")).status_code == 401
    headers = {"Authorization": f"Bearer {begun['api_key']}"}
    told = (await gateway.http.get(f"{before}/tokenizer_info", headers=headers)).json()
    assert (
        told["eos_token"] == "<|im_end|>"
        and "bos_token" in told
        and "<|im_start|>" in told["chat_template"]
    )
    asked = {"prompt": told["eos_token"], "add_special_tokens": False}
    encoded = await gateway.http.post(f"{before}/tokenize", json=asked, headers=headers)
    assert encoded.json()["tokens"] == [gateway.engine.end_id]
    decoded = await gateway.http.post(
        f"{before}/detokenize", json={"tokens": [gateway.engine.end_id]}, headers=headers
    )
    assert decoded.json()["prompt"] == told["eos_token"]
