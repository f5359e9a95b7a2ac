"""The older completions path: plain prompts, as text or ids."""

import openai
import pytest

from gpu_runtime.journal.timelines import agents_of, merge
from support.gateway_harness import MODEL, Gateway


async def complete(gateway: Gateway, begun: dict, prompt, **options):
    return await gateway.openai(begun).completions.create(model=MODEL, prompt=prompt, **options)


async def test_ids_go_to_the_engine_as_they_are(gateway: Gateway) -> None:
    gateway.engine.say("is four")
    answer = await complete(gateway, await gateway.begin(), [40, 41, 42])
    seen = gateway.engine.requests[0]
    assert seen.prompt_ids == (40, 41, 42)
    assert answer.choices[0].text == "is four"
    assert answer.choices[0].token_ids == seen.token_ids
    assert answer.choices[0].prompt_token_ids == [40, 41, 42]
    assert answer.choices[0].logprobs.token_logprobs == pytest.approx(seen.logprobs, abs=1e-6)
    assert answer.usage.total_tokens == 3 + len(seen.token_ids)


async def test_text_that_continues_an_answer_reuses_its_ids(gateway: Gateway) -> None:
    begun = await gateway.begin()
    odd = [i for letter in "quick brown" for i in gateway.engine.encode(letter)]
    gateway.engine.say([*odd, gateway.engine.end_id])
    first = await complete(gateway, begun, "the ")
    await complete(gateway, begun, "the " + first.choices[0].text + " fox")
    one, two = gateway.engine.requests
    kept = one.prompt_ids + tuple(odd)
    assert two.prompt_ids == (*kept, *gateway.engine.encode(" fox"))
    pieces = agents_of(gateway.journal.calls.of_episode(begun["episode_id"]))[None]
    assert sum(sum(t.mask_T) for t in merge(pieces)) == len(one.token_ids) + len(two.token_ids)


async def test_stream_is_the_same_text(gateway: Gateway) -> None:
    gateway.engine.say("jumps over the lazy dog")
    stream = await complete(
        gateway, await gateway.begin(), "fox ", stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert (
        "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)
        == "jumps over the lazy dog"
    )
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.completion_tokens == len(gateway.engine.requests[0].token_ids)


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"prompt": ["a"] * 129}, "prompt"),
        ({"prompt": ["a", ""]}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": [10**9]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": "x", "extra_body": {"prompt_logprobs": 21}}, "prompt_logprobs"),
        ({"prompt": "x", "best_of": 3}, "best_of"),
        ({"prompt": "x", "suffix": "y"}, "suffix"),
        ({"prompt": "x", "logprobs": 21}, "logprobs"),
    ],
)
async def test_bad_or_unsupported_option_is_named(gateway: Gateway, options, param) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await gateway.openai(await gateway.begin()).completions.create(model=MODEL, **options)
    assert refused.value.param == param


async def test_prompt_over_the_context_is_refused_before_the_engine(gateway: Gateway) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await complete(gateway, await gateway.begin(), [1] * 512)
    assert refused.value.code == "context_length_exceeded"
    assert gateway.engine.requests == []
