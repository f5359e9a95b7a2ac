"""The default base model has tools: an OpenAI client's tool loop runs on its chat template, without
a change.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runtime.bundled_model import is_complete
from gpu_runtime.journal.timelines import agents_of, merge
from gpu_runtime.rendering.tool_formats import SMOLLM2
from gpu_runtime.rendering.transformers_tokenizer import TransformersTokenizer
from support.gateway_harness import Gateway, running_gateway
from support.generated import any_speed
from support.tool_answers import TOOLS, weather
from tinkerscript.wire.config import SessionConfig

MODEL = Path(__file__).parents[3] / ".data" / "models" / "SmolLM2-135M-Instruct"
ROOM = {"max_context_length": 2048, "max_tokens": 200}
ASK = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "What is the weather in Rome?"},
]
RESULTS = {"Rome": "sunny", "Oslo": "snow"}
WRITTEN = f"<tool_call>[{weather('Rome')}, {weather('Oslo')}]</tool_call>"


def timelines(gateway: Gateway, episode_id: str) -> int:
    calls = gateway.journal.calls.of_episode(episode_id)
    return sum(len(merge(segments)) for segments in agents_of(calls).values())


def followed(messages: list[Any], message: Any) -> list[Any]:
    """The conversation with an answer, and the result of each of its calls."""
    results = [
        {
            "role": "tool",
            "tool_call_id": call.id,
            "content": RESULTS[json.loads(call.function.arguments)["city"]],
        }
        for call in message.tool_calls
    ]
    return [*messages, message.model_dump(exclude_none=True), *results]


@pytest.mark.parametrize(
    "said", [WRITTEN, f"I look.\n{WRITTEN}", WRITTEN.replace("[{", "[\n{ "), WRITTEN[:-12]]
)
async def test_a_tool_loop_is_native_and_one_timeline(tmp_path: Path, said: str) -> None:
    async with running_gateway(tmp_path, family="bundled", **ROOM) as gateway:
        begun = await gateway.begin()
        gateway.engine.say(said, "Sunny in Rome, snow in Oslo.", "You are welcome.")
        first = await gateway.chat(begun, messages=ASK, tools=TOOLS)
        assert first.choices[0].finish_reason == "tool_calls"
        assert [
            json.loads(call.function.arguments) for call in first.choices[0].message.tool_calls
        ] == [
            {"city": "Rome"},
            {"city": "Oslo"},
        ]
        messages = followed(ASK, first.choices[0].message)
        second = await gateway.chat(begun, messages=messages, tools=TOOLS)
        messages += [
            second.choices[0].message.model_dump(exclude_none=True),
            {"role": "user", "content": "Thanks."},
        ]
        assert (
            (await gateway.chat(begun, messages=messages, tools=TOOLS)).choices[0].message.content
        )
        prompt = gateway.renderer.decode(gateway.engine.requests[1].prompt_ids, special=True)
        assert "<tool_response>\nsunny\n</tool_response>" in prompt
        assert timelines(gateway, begun["episode_id"]) == 1
        assert [call.drift for call in gateway.journal.calls.of_episode(begun["episode_id"])] == [
            None
        ] * 3


async def test_a_forced_call_is_continued_on_its_own_tokens(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, family="bundled", **ROOM) as gateway:
        begun = await gateway.begin()
        gateway.engine.say(WRITTEN.removeprefix("<tool_call>"), "Sunny.")
        first = await gateway.chat(begun, messages=ASK, tools=TOOLS, tool_choice="required")
        await gateway.chat(begun, messages=followed(ASK, first.choices[0].message), tools=TOOLS)
        assert timelines(gateway, begun["episode_id"]) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_one_call_at_most_where_parallel_ones_are_forbidden(
    tmp_path: Path, stream: bool
) -> None:
    async with running_gateway(tmp_path, family="bundled", **ROOM) as gateway:
        gateway.engine.say(WRITTEN.replace(f", {weather('Oslo')}", ""))
        options = {"tools": TOOLS, "parallel_tool_calls": False, "stream": stream}
        answer = await gateway.chat(await gateway.begin(), messages=ASK, **options)
        if stream:
            deltas = [chunk.choices[0].delta async for chunk in answer if chunk.choices]
            assert "".join(
                call.function.arguments or "" for d in deltas for call in d.tool_calls or []
            ) == ('{"city": "Rome"}')
        else:
            assert len(answer.choices[0].message.tool_calls) == 1
        assert gateway.engine.requests[0].options.structural_tag, (
            "the engine can write no second one"
        )


@pytest.mark.parametrize(
    "said", ["It is <tool_call", "<tool_call>[]</tool_call>", "<tool_call>[{]</tool_call>"]
)
async def test_what_is_no_call_is_plain_text(tmp_path: Path, said: str) -> None:
    async with running_gateway(tmp_path, family="bundled", **ROOM) as gateway:
        gateway.engine.say(said)
        message = (
            (await gateway.chat(await gateway.begin(), messages=ASK, tools=TOOLS))
            .choices[0]
            .message
        )
        assert (message.content, message.tool_calls) == (said, None)


@any_speed
@given(text=st.text(alphabet='<tool_call>[]{}" ,name:arguments/', max_size=60))
def test_any_text_is_parsed_without_an_error(text: str) -> None:
    content, calls = SMOLLM2.parse(f"<tool_call>{text}")
    assert calls or content == f"<tool_call>{text}"


@pytest.mark.nightly
@pytest.mark.engine
@pytest.mark.timeout(400)
# what vLLM imports warns of its own future
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_the_default_model_itself_plays_a_tool_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the real weights and engine. A 135M model rarely calls of its own accord, so that the
    first is required.
    """
    if not is_complete(MODEL):
        pytest.skip("the base model is not made: requirements/install.sh model")
    from gpu_runtime.engine.arguments import EngineSpec
    from gpu_runtime.engine.vllm_engine import VllmEngine

    monkeypatch.setenv("TINKERSCRIPT_RUNTIME_DIR", str(tmp_path))
    engine = await VllmEngine.start(EngineSpec(str(MODEL), SessionConfig(**ROOM), "cpu"))
    try:
        async with running_gateway(
            tmp_path, real=(engine, TransformersTokenizer(str(MODEL))), **ROOM
        ) as gateway:
            begun = await gateway.begin()
            first = await gateway.chat(begun, messages=ASK, tools=TOOLS[:1], tool_choice="required")
            assert first.choices[0].finish_reason == "tool_calls"
            messages = followed(ASK, first.choices[0].message)
            second = (
                (await gateway.chat(begun, messages=messages, tools=TOOLS[:1], max_tokens=40))
                .choices[0]
                .message
            )
            assert second.content or second.tool_calls
            assert [
                call.drift for call in gateway.journal.calls.of_episode(begun["episode_id"])
            ] == [None, None]
            assert timelines(gateway, begun["episode_id"]) == 1
    finally:
        await engine.close()
