"""``chat_template_kwargs`` and ``reasoning_effort`` reach the template, and belong to the
conversation's identity.
"""

from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.rendering.template_variables import variables_of
from support.gateway_harness import MODEL, Gateway, running_gateway
from support.real_templates import real_template

OFF = {"enable_thinking": False}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}]},
    "/v1/responses": {"input": "hello"},
    "/v1/messages": {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 16},
}


def prompts(gateway: Gateway) -> list[str]:
    return [
        gateway.renderer.decode(request.prompt_ids, special=True)
        for request in gateway.engine.requests
    ]


async def send(gateway: Gateway, begun: dict[str, Any], path: str, **options: Any) -> Any:
    headers = {"Authorization": f"Bearer {begun['api_key']}"}
    return await gateway.http.post(
        path, json={"model": MODEL} | BODIES[path] | options, headers=headers
    )


@pytest.mark.parametrize("path", BODIES)
async def test_a_variable_reaches_the_template_in_every_dialect(tmp_path: Path, path: str) -> None:
    async with running_gateway(tmp_path, family="qwen3") as gateway:
        begun = await gateway.begin()
        gateway.engine.say("<think>\nhm\n</think>\n\nfour", "four")
        assert (await send(gateway, begun, path)).status_code == 200
        assert (await send(gateway, begun, path, chat_template_kwargs=OFF)).status_code == 200
        thinks, not_thinking = prompts(gateway)
        assert thinks.endswith("assistant\n") and not_thinking.endswith("<think>\n\n</think>\n\n")


@pytest.mark.system  # a process compares the prompts
async def test_conversations_under_other_variables_are_never_mixed(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, family="qwen3") as gateway:
        begun = await gateway.begin()
        gateway.engine.say("four", "five", "six")
        hello = {"role": "user", "content": "hello"}
        await gateway.chat(begun, extra_body={"chat_template_kwargs": OFF})
        messages = [hello, {"role": "assistant", "content": "four"}, hello]
        await gateway.chat(begun, messages=messages)
        await gateway.chat(begun, messages=messages, extra_body={"chat_template_kwargs": OFF})
        first, other, again = gateway.journal.calls.of_episode(begun["episode_id"])
        assert other.parent is None, "another conversation"
        assert (
            first.options["template_variables"] == OFF and "template_variables" not in other.options
        )
        assert again.parent is None or again.parent.call_id == first.id


async def test_a_variable_changes_how_an_answer_is_read(tmp_path: Path) -> None:
    """A template that opens the turn with thoughts unless it is told not to."""
    async with running_gateway(tmp_path, family="opens_thoughts") as gateway:
        begun = await gateway.begin()
        gateway.engine.say("hm</think>four", "four")
        thought = await gateway.chat(begun)
        plain = await gateway.chat(begun, extra_body={"chat_template_kwargs": OFF})
        assert (
            thought.choices[0].message.reasoning_content,
            thought.choices[0].message.content,
        ) == ("hm", "four")
        assert plain.choices[0].message.content == "four"
        assert not hasattr(plain.choices[0].message, "reasoning_content")


async def test_a_variable_that_the_template_does_not_read_is_refused_with_those_that_it_reads(
    tmp_path: Path,
) -> None:
    async with running_gateway(tmp_path, family="qwen3") as gateway:
        key = (await gateway.begin())["api_key"]
        refused = await gateway.raw_chat(key, chat_template_kwargs={"enable_thoughts": False})
        assert (
            refused.status_code == 400
            and refused.json()["error"]["param"] == "chat_template_kwargs"
        )
        assert "enable_thinking" in refused.json()["error"]["message"]
        assert gateway.engine.requests == []
        assert (await gateway.raw_chat(key, chat_template_kwargs={})).status_code == 200


async def test_effort_is_written_where_the_template_has_levels(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, family="gptoss") as gateway:
        await gateway.chat(await gateway.begin(), reasoning_effort="high")
        assert "Reasoning: high" in prompts(gateway)[0]
        key = (await gateway.begin())["api_key"]
        contradicted = await gateway.raw_chat(
            key, reasoning_effort="high", chat_template_kwargs={"reasoning_effort": "low"}
        )
        assert (
            contradicted.status_code == 400
            and contradicted.json()["error"]["param"] == "reasoning_effort"
        )


async def test_no_effort_switches_thoughts_off_where_that_is_all_the_template_has(
    tmp_path: Path,
) -> None:
    async with running_gateway(tmp_path, family="qwen3") as gateway:
        begun = await gateway.begin()
        await gateway.chat(begun, reasoning_effort="none")
        assert prompts(gateway)[0].endswith("</think>\n\n")


@pytest.mark.parametrize("family", ["qwen2_5", "qwen3", "qwen3_6"])
async def test_an_effort_that_the_template_has_not_is_a_label_or_refused(
    tmp_path: Path, family: str
) -> None:
    async with running_gateway(tmp_path / "label", family=family) as gateway:
        begun = await gateway.begin()
        for effort in ("low", "xhigh"):
            assert (
                await gateway.raw_chat(begun["api_key"], reasoning_effort=effort)
            ).status_code == 200
        plain = await gateway.raw_chat(begun["api_key"])
        assert plain.status_code == 200 and len(set(prompts(gateway))) == 1
        calls = gateway.journal.calls.of_episode(begun["episode_id"])
        assert [call.options.get("labels") for call in calls] == [
            {"reasoning_effort": "low"},
            {"reasoning_effort": "xhigh"},
            None,
        ]
    async with running_gateway(
        tmp_path / "refuse", family=family, unsupported_effort="refuse"
    ) as gateway:
        key = (await gateway.begin())["api_key"]
        refused = await gateway.raw_chat(key, reasoning_effort="high")
        assert refused.status_code == 400 and refused.json()["error"]["param"] == "reasoning_effort"
        assert ("enable_thinking" in refused.json()["error"]["message"]) == (family != "qwen2_5")


async def test_a_model_that_always_thinks_refuses_to_be_switched_off(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, family="deepseek_r1_distill") as gateway:
        key = (await gateway.begin())["api_key"]
        for off in ({"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}):
            assert (await gateway.raw_chat(key, **off)).status_code == 400
        assert (await gateway.raw_chat(key, thinking={"type": "enabled"})).status_code == 200


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("qwen2_5", set()),
        ("qwen3", {"enable_thinking"}),
        ("gptoss", {"reasoning_effort", "model_identity", "builtin_tools"}),
        ("llama3_1", {"date_string", "tools_in_user_message", "builtin_tools"}),
    ],
)
def test_variables_of_real_templates(family: str, expected: set[str]) -> None:
    assert variables_of(real_template(family)[0]) == expected
