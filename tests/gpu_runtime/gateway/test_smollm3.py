"""A template that passes contents on and leaves calls out: SmolLM3's, whose thoughts and calls are
text.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.journal.timelines import agents_of, merge
from support.gateway_harness import Gateway, running_gateway

TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}},
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
THOUGHT = "<think>\nI look\n it up.\n</think>\n"


@pytest.fixture
async def smollm3(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running_gateway(
        tmp_path, family="smollm3", max_tokens=300, max_context_length=4096
    ) as gateway:
        yield gateway


def say(gateway: Gateway, text: str) -> None:
    """The next answer, in ids that encoding it would never make."""
    gateway.engine.say(
        [*(t for letter in text for t in gateway.engine.encode(letter)), gateway.engine.end_id]
    )


@pytest.mark.parametrize("switch", ["think", "no_think in the system message", "enable_thinking"])
@pytest.mark.parametrize("strips", [False, True])
async def test_a_tool_loop_is_one_timeline(smollm3: Gateway, switch: str, strips: bool) -> None:
    begun, thinks = await smollm3.begin(), switch == "think"
    messages: list[Any] = [{"role": "user", "content": "weather?"}]
    if switch.startswith("no_think"):
        messages.insert(0, {"role": "system", "content": "Be short. /no_think"})
    off = (
        {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}
        if switch == "enable_thinking"
        else {}
    )
    for text in (CALL, f"{CALL}\n{CALL}", "Sunny."):
        say(smollm3, (THOUGHT if thinks else "") + text)
        answer = (
            (await smollm3.chat(begun, messages=messages, tools=[TOOL], **off)).choices[0].message
        )
        calls = answer.tool_calls or []
        assert len(calls) == text.count("get_weather")
        assert ("I look" in (answer.content or "")) == thinks, (
            "its thoughts are part of the content"
        )
        echo = answer.model_dump(exclude_none=True)
        if strips:
            echo["content"] = (answer.content or "").rpartition("</think>")[2].strip()
        messages += [
            echo,
            *({"role": "tool", "tool_call_id": call.id, "content": "sunny"} for call in calls),
        ]
    say(smollm3, "Bye.")
    await smollm3.chat(
        begun, messages=[*messages, {"role": "user", "content": "thanks"}], tools=[TOOL], **off
    )
    calls = smollm3.journal.calls.of_episode(begun["episode_id"])
    assert [call.drift for call in calls] == [None] * 4
    assert sum(len(merge(pieces)) for pieces in agents_of(calls).values()) == 1
    prompt = smollm3.renderer.decode(smollm3.engine.requests[0].prompt_ids, special=True)
    assert prompt.endswith("assistant\n" if thinks else "assistant\n<think>\n\n</think>\n")
