"""Conversations under the chat templates of real model families: one timeline wherever the template
allows it.
"""

from pathlib import Path

import pytest

from gpu_runtime.errors import ModelUnsupported
from gpu_runtime.journal.timelines import agents_of, merge
from gpu_runtime.rendering.renderer import Renderer
from gpu_runtime.rendering.template_check import template_verify
from support.gateway_harness import Gateway, running_gateway
from support.light_tokenizer import LightTokenizer
from support.real_templates import MISTRAL_VERSIONS, REAL_TEMPLATES
from support.tiny_tokenizers import build_tokenizer

BOUNDS = {"max_tokens": 300, "max_context_length": 4096}
TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}},
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def calls(gateway: Gateway, begun: dict):
    return gateway.journal.calls.of_episode(begun["episode_id"])


def timelines(gateway: Gateway, begun: dict) -> int:
    return sum(len(merge(segments)) for segments in agents_of(calls(gateway, begun)).values())


def odd(gateway: Gateway, text: str) -> list[int]:
    """``text`` in ids that encoding it would never make, with the end of the turn."""
    return [
        *(token for letter in text for token in gateway.engine.encode(letter)),
        gateway.engine.end_id,
    ]


@pytest.mark.parametrize("family", REAL_TEMPLATES)
async def test_a_conversation_without_thoughts_is_one_timeline(tmp_path: Path, family: str) -> None:
    async with running_gateway(tmp_path, family=family, **BOUNDS) as gateway:
        begun = await gateway.begin()
        messages: list = []
        for number in range(3):
            messages.append({"role": "user", "content": f"question {number}"})
            inside = "</think>\n\n" if family == "deepseek_r1_distill" else ""
            gateway.engine.say(odd(gateway, f"{inside}answer {number}"))
            answer = await gateway.chat(begun, messages=messages)
            assert answer.choices[0].message.content == f"answer {number}"
            messages.append({"role": "assistant", "content": answer.choices[0].message.content})
        # their templates write an answer in history in another way
        if family in ("deepseek_r1_distill", "gptoss"):
            assert {call.drift["cause"] for call in calls(gateway, begun)[1:]} == {"template"}
            return
        assert [call.drift for call in calls(gateway, begun)] == [None] * 3
        assert timelines(gateway, begun) == 1


@pytest.mark.parametrize("family", ["qwen2_5", "qwen3", "qwen3_instruct_2507"])
async def test_a_tool_loop_is_one_timeline(tmp_path: Path, family: str) -> None:
    async with running_gateway(tmp_path, family=family, **BOUNDS) as gateway:
        begun = await gateway.begin()
        messages: list = [{"role": "user", "content": "weather?"}]
        for _ in range(3):
            gateway.engine.say(odd(gateway, CALL))
            answer = await gateway.chat(begun, messages=messages, tools=[TOOL])
            messages.append(answer.choices[0].message.model_dump(exclude_none=True))
            call_id = messages[-1]["tool_calls"][0]["id"]
            messages.append({"role": "tool", "tool_call_id": call_id, "content": "sunny"})
        assert [call.drift for call in calls(gateway, begun)] == [None] * 3
        assert timelines(gateway, begun) == 1


@pytest.mark.parametrize("family", ["qwen2_5", "qwen3_instruct_2507"])
async def test_a_last_word_without_tools_goes_on_in_the_timeline_of_the_loop(
    tmp_path: Path, family: str
) -> None:
    """tool_choice none forbids calls and describes the tools all the same, as vLLM does: the prompt
    stays as it was.
    """
    async with running_gateway(tmp_path, family=family, **BOUNDS) as gateway:
        begun = await gateway.begin()
        gateway.engine.say(odd(gateway, CALL), odd(gateway, "It is sunny."))
        messages: list = [{"role": "user", "content": "weather?"}]
        answer = await gateway.chat(begun, messages=messages, tools=[TOOL])
        messages.append(answer.choices[0].message.model_dump(exclude_none=True))
        call_id = messages[-1]["tool_calls"][0]["id"]
        messages.append({"role": "tool", "tool_call_id": call_id, "content": "sunny"})
        await gateway.chat(begun, messages=messages, tools=[TOOL], tool_choice="none")
        assert timelines(gateway, begun) == 1


@pytest.mark.parametrize("family", MISTRAL_VERSIONS)
async def test_mistrals_own_templates(tmp_path: Path, family: str) -> None:
    """Plain turns and thoughts as text, each in one timeline; tools are taken."""
    pytest.importorskip("mistral_common", reason="it comes with the engine")
    async with running_gateway(tmp_path, family=family, **BOUNDS) as gateway:
        begun, messages = await gateway.begin(), [{"role": "user", "content": "weather?"}]
        thinks = family == "magistral_v11"
        asked = await gateway.raw_chat(begun["api_key"], messages=messages, tools=[TOOL])
        assert asked.status_code == 200, asked.text
        begun = await gateway.begin()
        for number in range(3):
            thoughts = "<think>I look.</think>" if thinks else ""
            gateway.engine.say(odd(gateway, f"{thoughts}answer {number}"))
            message = (await gateway.chat(begun, messages=messages)).choices[0].message
            assert (message.content, getattr(message, "reasoning_content", "")) == (
                f"answer {number}", "I look." if thinks else "",
            )  # fmt: skip
            messages += [
                message.model_dump(exclude_none=True),
                {"role": "user", "content": "and then?"},
            ]
        assert timelines(gateway, begun) == 1


def test_a_template_with_channels_between_special_tokens_that_are_not_known_is_refused(
    tmp_path: Path,
) -> None:
    folder = build_tokenizer(tmp_path, "gptoss")
    template = folder / "chat_template.jinja"
    template.write_text(template.read_text().replace("final<|message|>", "last<|message|>"))
    with pytest.raises(ModelUnsupported, match="special tokens.*does not read"):
        template_verify(Renderer(LightTokenizer(folder)), str(folder))


@pytest.mark.parametrize("family", [*REAL_TEMPLATES, "magistral_v13"])
def test_every_other_template_is_taken(tmp_path: Path, family: str) -> None:
    if family in MISTRAL_VERSIONS:
        pytest.importorskip("mistral_common", reason="it comes with the engine")
    folder = build_tokenizer(tmp_path, family)
    template_verify(Renderer(LightTokenizer(folder)), str(folder))
