"""Models that think: their thoughts are returned apart, and taken under every name that clients
have for them.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runtime.journal.timelines import agents_of, merge
from gpu_runtime.journal.token_values import set_size
from gpu_runtime.rendering.thoughts import ThoughtFormat, ThoughtSplitter
from support.gateway_harness import MODEL, Gateway, running_gateway
from support.generated import any_speed

TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}},
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
THOUGHT = f"<think>\nI look\n it up.\n</think>\n\n{CALL}"
ASK = [{"role": "user", "content": "weather?"}]
FORM = ThoughtFormat("<think>", "</think>")
# The names under which clients send thoughts back.
ECHOES: dict[str, Any] = {
    "reasoning_content": lambda thoughts: thoughts,
    "reasoning": lambda thoughts: thoughts,
    "reasoning_details": lambda thoughts: [{"type": "reasoning.text", "text": thoughts}],
    "thinking_blocks": lambda thoughts: [
        {"type": "thinking", "thinking": thoughts, "signature": ""}
    ],
}


@pytest.fixture
async def qwen(tmp_path: Path) -> AsyncIterator[Gateway]:
    """A gateway with the template of Qwen3."""
    async with running_gateway(
        tmp_path, family="qwen3", max_tokens=300, max_context_length=4096
    ) as gateway:
        yield gateway


def calls(gateway: Gateway, begun: dict):
    return gateway.journal.calls.of_episode(begun["episode_id"])


def timelines(gateway: Gateway, begun: dict) -> int:
    return sum(len(merge(segments)) for segments in agents_of(calls(gateway, begun)).values())


async def second_call(gateway: Gateway, begun: dict, answer: dict[str, Any]) -> None:
    """The tool's result after the first ``answer``, as the client echoes it."""
    result = {"role": "tool", "tool_call_id": answer["tool_calls"][0]["id"], "content": "sunny"}
    gateway.engine.say("<think>\nSo.\n</think>\n\nIt is sunny.")
    await gateway.chat(begun, messages=[*ASK, answer, result], tools=[TOOL])


async def test_thoughts_are_apart_from_the_answer(qwen: Gateway) -> None:
    qwen.engine.say("<think>\nTwo and two.\n</think>\n\nfour")
    message = (await qwen.chat(await qwen.begin())).choices[0].message
    assert (message.content, message.reasoning_content) == ("four", "Two and two.")


@pytest.mark.parametrize(
    "said", ["<think>\nTwo and two.\n</think>\n\nfour", "<think>\nnever done", "four", THOUGHT]
)
async def test_a_stream_has_the_same_content(qwen: Gateway, said: str) -> None:
    begun = await qwen.begin()
    qwen.engine.say(said, said)
    whole = (await qwen.chat(begun, messages=ASK, tools=[TOOL])).choices[0].message
    thoughts = text = ""
    async for chunk in await qwen.chat(begun, messages=ASK, tools=[TOOL], stream=True):
        delta = chunk.choices[0].delta
        thoughts += getattr(delta, "reasoning_content", None) or ""
        text += delta.content or ""
    assert (thoughts, text) == (getattr(whole, "reasoning_content", ""), whole.content or "")


@pytest.mark.parametrize("echo", [*ECHOES, "stripped", "indented"])
async def test_a_tool_loop_is_one_timeline_however_the_client_echoes_thoughts(
    qwen: Gateway, echo: str
) -> None:
    begun = await qwen.begin()
    qwen.engine.say(
        [*(token for letter in THOUGHT for token in qwen.engine.encode(letter)), qwen.engine.end_id]
    )
    answer = (
        (await qwen.chat(begun, messages=ASK, tools=[TOOL]))
        .choices[0]
        .message.model_dump(exclude_none=True)
    )
    thoughts = answer.pop("reasoning_content")
    if echo in ECHOES:
        answer[echo] = ECHOES[echo](thoughts)
    elif echo == "indented":
        answer["reasoning_content"] = thoughts.replace("\n", "\n\t")
    await second_call(qwen, begun, answer)
    assert [call.drift for call in calls(qwen, begun)] == [None, None]
    assert timelines(qwen, begun) == 1


async def test_a_text_that_the_client_strips_of_thoughts_is_found_again(qwen: Gateway) -> None:
    """In the content, where clients that know no thoughts have them, and without: before a next
    question Qwen3 drops them, so that the new timeline is the template's doing and no client's.
    """
    begun = await qwen.begin()
    qwen.engine.say("<think>\nhm\n</think>\n\nfour  and\n more", "five")
    await qwen.chat(begun, messages=ASK)
    echo = {"role": "assistant", "content": "four and more"}
    await qwen.chat(begun, messages=[*ASK, echo, {"role": "user", "content": "go on"}])
    drift = calls(qwen, begun)[1].drift
    assert (drift["cause"], drift["message"]) == ("template", 1)
    assert "<think>" in drift["saw"] and "<think>" not in drift["renders"]


async def test_thoughts_for_a_model_without_any_are_refused_by_name(gateway: Gateway) -> None:
    begun = await gateway.begin()
    echo = {"role": "assistant", "content": "four", "reasoning_content": "hm"}
    answer = await gateway.raw_chat(begun["api_key"], messages=[*ASK, echo, *ASK])
    assert (answer.status_code, answer.json()["error"]["param"]) == (
        400,
        "messages[1].reasoning_content",
    )
    assert gateway.engine.requests == []


@pytest.mark.parametrize("stream", [False, True])
async def test_anthropics_thinking_blocks(qwen: Gateway, stream: bool) -> None:
    begun = await qwen.begin()
    tool = {"name": "get_weather", "input_schema": {"type": "object", "properties": {}}}
    url = f"http://{qwen.address}"
    async with anthropic.AsyncAnthropic(
        base_url=url, api_key=begun["api_key"], max_retries=0
    ) as client:

        async def ask(messages: list[Any]) -> Any:
            options = {"model": MODEL, "max_tokens": 300, "tools": [tool], "messages": messages}
            if not stream:
                return await client.messages.create(**options)
            async with client.messages.stream(**options) as events:
                return await events.get_final_message()

        qwen.engine.say(THOUGHT, "<think>\nSo.\n</think>\n\nIt is sunny.")
        first = await ask(ASK)
        assert [block.type for block in first.content] == ["thinking", "tool_use"]
        assert first.content[0].thinking == "I look\n it up."
        result = [{"type": "tool_result", "tool_use_id": first.content[1].id, "content": "sunny"}]
        echo = {"role": "assistant", "content": [block.model_dump() for block in first.content]}
        second = await ask([*ASK, echo, {"role": "user", "content": result}])
    assert [block.type for block in second.content] == ["thinking", "text"]
    assert timelines(qwen, begun) == 1
    assert first.content[0].signature and second.content[0].signature != first.content[0].signature


async def test_a_signature_of_ours_finds_the_answer_that_it_came_with(qwen: Gateway) -> None:
    """Two answers of one text: the thoughts alone tell them apart, and the client sends none
    back.
    """
    begun = await qwen.begin()
    key = {"Authorization": f"Bearer {begun['api_key']}"}

    async def ask(messages: list[Any]) -> list[dict[str, Any]]:
        body = {"model": MODEL, "max_tokens": 100, "messages": messages}
        return (await qwen.http.post("/v1/messages", json=body, headers=key)).json()["content"]

    qwen.engine.say(
        *(f"<think>\n{thought}\n</think>\n\nfour" for thought in ("One way.", "Another way."))
    )
    first, _ = [await ask(ASK) for _ in range(2)]
    echo = {"role": "assistant", "content": [first[0] | {"thinking": ""}, first[1]]}
    foreign = {"role": "assistant", "content": [first[0] | {"signature": "EqQBCg=="}, first[1]]}
    for answer in (echo, foreign):
        await ask([*ASK, answer, {"role": "user", "content": "go on"}])
    one, _, *later = calls(qwen, begun)
    assert [call.parent.call_id if call.parent else call.drift["continues"] for call in later] == [
        one.id
    ] * 2


async def test_an_answer_of_thoughts_alone_has_no_empty_message(qwen: Gateway) -> None:
    begun = await qwen.begin()
    key, ask = {"Authorization": f"Bearer {begun['api_key']}"}, {"model": MODEL, "input": ASK}
    qwen.engine.say("<think>\nI look.\n</think>\n\n", "four")
    first = (await qwen.http.post("/v1/responses", json=ask, headers=key)).json()
    assert [item["type"] for item in first["output"]] == ["reasoning"]
    thoughts = first["usage"]["output_tokens_details"]["reasoning_tokens"]
    assert 0 < thoughts <= first["usage"]["output_tokens"]
    goes_on = ask | {"input": [*ASK, *first["output"], {"role": "user", "content": "And?"}]}
    assert (await qwen.http.post("/v1/responses", json=goes_on, headers=key)).status_code == 200
    assert [message["role"] for message in calls(qwen, begun)[1].messages][-2:] == [
        "assistant",
        "user",
    ]


@pytest.mark.parametrize("stream", [False, True])
async def test_reasoning_items_of_responses(qwen: Gateway, stream: bool) -> None:
    begun, client = await qwen.begin(), None
    client = qwen.openai(begun)
    tool = {
        "type": "function",
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {}},
    }

    async def ask(items: list[Any]) -> Any:
        options = {"model": MODEL, "tools": [tool], "input": items}
        if not stream:
            return await client.responses.create(**options)
        async for event in await client.responses.create(**options, stream=True):
            last = event
        return last.response

    qwen.engine.say(THOUGHT, "<think>\nSo.\n</think>\n\nIt is sunny.")
    first = await ask(ASK)
    assert [item.type for item in first.output] == ["reasoning", "function_call"]
    assert first.output[0].content[0].text == "I look\n it up."
    result = {"type": "function_call_output", "call_id": first.output[1].call_id, "output": "sunny"}
    second = await ask(
        [*ASK, *(item.model_dump(exclude_none=True) for item in first.output), result]
    )
    assert [item.type for item in second.output] == ["reasoning", "message"]
    assert timelines(qwen, begun) == 1


async def test_an_answer_that_starts_in_thoughts(tmp_path: Path) -> None:
    """DeepSeek-R1's template opens the turn with the mark."""
    async with running_gateway(
        tmp_path, family="deepseek_r1_distill", max_context_length=2048
    ) as gateway:
        gateway.engine.say("Two and two.\n</think>\n\nfour")
        message = (await gateway.chat(await gateway.begin())).choices[0].message
        assert (message.content, message.reasoning_content) == ("four", "Two and two.")


@any_speed
@given(
    text=st.sampled_from(
        [
            THOUGHT,
            "four",
            "<think>\n\n</think>\n\nx",
            "<think>\na\n\nb",
            "<thin",
            " <think>a</think>b",
        ]
    ),
    cuts=st.lists(st.integers(0, 60), max_size=8),
)
def test_thoughts_are_separated_the_same_however_the_text_is_cut(
    text: str, cuts: list[int]
) -> None:
    splitter, thoughts, rest = ThoughtSplitter(FORM), "", ""
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for start, end in zip(edges, edges[1:], strict=False):
        more = splitter.feed(text[start:end])
        thoughts, rest = thoughts + more[0], rest + more[1]
    more = splitter.finish()
    assert (thoughts + more[0] if splitter.found else None, rest + more[1]) == FORM.split(text)


THOUGHT_OF = [
    (
        "opens_thoughts",
        "A Question: what?\n</think>\n\nfour.\nQuestion: and?",
        ("A Question: what?", "four.\n"),
    ),
    ("opens_thoughts", "A Question: what?", ("A Question: what?", "")),
    ("qwen3", "<think>\nA Question: what?\n</think>\n\nQuestion: and?", ("A Question: what?", "")),
    ("qwen3", "four.\nQuestion: and?", ("", "four.\n")),
    ("qwen3", "four.\nQuest", ("", "four.\nQuest")),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("family", "text", "read"), THOUGHT_OF)
async def test_stop_strings_inside_thoughts_stop_nothing(
    tmp_path: Path, family: str, text: str, read: tuple[str, str], stream: bool
) -> None:
    async with running_gateway(
        tmp_path, family=family, max_tokens=128, max_context_length=1024
    ) as gateway:
        gateway.engine.say(text)
        begun, options = (
            await gateway.begin(),
            {"messages": [{"role": "user", "content": "?"}], "stop": ["Question:"]},
        )
        thoughts, content, reason = "", "", None
        if stream:
            async for chunk in await gateway.openai(begun).chat.completions.create(
                model="tiny-model", stream=True, **options
            ):
                delta, reason = chunk.choices[0].delta, chunk.choices[0].finish_reason
                thoughts += getattr(delta, "reasoning_content", None) or ""
                content += delta.content or ""
        else:
            choice = (await gateway.chat(begun, **options)).choices[0]
            thoughts = getattr(choice.message, "reasoning_content", None) or ""
            content, reason = choice.message.content, choice.finish_reason
        assert (thoughts, content, reason) == (*read, "stop")
        (answer,) = gateway.journal.calls.of_episode(begun["episode_id"])[0].completions
        assert gateway.engine.requests[0].options.stop == ()
        is_cut = "Question:" in text.rpartition("</think>")[2] and text != THOUGHT_OF[1][1]
        assert answer.stop_reason == ("Question:" if is_cut else None)
        sampled = gateway.renderer.decode(answer.token_ids_T)
        assert sampled.endswith("Question:") if is_cut else sampled == text


@pytest.mark.parametrize("stream", [False, True])
async def test_thoughts_end_at_their_budget_with_a_bound_mark(tmp_path: Path, stream: bool) -> None:
    async with running_gateway(
        tmp_path, family="opens_thoughts", max_tokens=128, max_context_length=1024
    ) as gateway:
        encode = gateway.engine.encode
        thoughts = [token for letter in "abcdefghij" for token in encode(letter)]
        gateway.engine.say([*thoughts, gateway.engine.end_id], "\n\nfour.")
        begun, asked = await gateway.begin(), {"messages": [{"role": "user", "content": "?"}]}
        options = asked | {"extra_body": {"thinking_budget": 5}}
        said, content = "", ""
        if stream:
            async for chunk in await gateway.openai(begun).chat.completions.create(
                model=MODEL, stream=True, **options
            ):
                said += getattr(chunk.choices[0].delta, "reasoning_content", None) or ""
                content += chunk.choices[0].delta.content or ""
        else:
            message = (await gateway.chat(begun, **options)).choices[0].message
            said, content = message.reasoning_content, message.content
        assert (said, content) == ("abcde", "four.")
        (call,) = gateway.journal.calls.of_episode(begun["episode_id"])
        (answer,), mark = call.completions, tuple(encode("</think>"))
        ids = (*thoughts[:5], *mark, *encode("\n\nfour."), gateway.engine.end_id)
        assert answer.token_ids_T == ids
        # The mark is what alone could come; all else is what the engine sampled behind exactly what
        # was before.
        sizes = [None if each is None else set_size(each) for each in answer.allowed_T]
        assert sizes == [None] * 5 + [1] * len(mark) + [None] * (len(ids) - 5 - len(mark))
        assert answer.logprobs_T[5 : 5 + len(mark)] == (0.0,) * len(mark)
        first, second = gateway.engine.requests
        assert second.prompt_ids == first.prompt_ids + ids[: 5 + len(mark)]
        assert second.options.max_tokens == first.options.max_tokens - 5 - len(mark)
        assert answer.logprobs_T[:5] == tuple(first.logprobs[:5])
        assert answer.logprobs_T[5 + len(mark) :] == tuple(second.logprobs)


async def test_the_budget_of_anthropics_switch_ends_thoughts_where_it_can(tmp_path: Path) -> None:
    async with running_gateway(
        tmp_path, family="opens_thoughts", max_tokens=64, max_context_length=1024
    ) as gateway:
        begun = await gateway.begin(eval=True)
        hello, thoughts = (
            [{"role": "user", "content": "?"}],
            [*map(gateway.engine.encode, "abcdefgh")],
        )
        format_ = {"type": "json_schema", "schema": {"type": "object"}}
        for budget, more, read, kept in (
            (5, {}, "abcde", None),
            (64, {}, "abcdefgh", 64),
            (-1, {}, "abcdefgh", -1),
            (5, {"output_config": {"format": format_}}, "abcdefgh", 5),
        ):
            whole = [token for letter in thoughts for token in letter]
            end = gateway.engine.encode("</think>\n\nfour.")
            ended = (
                [[*whole, gateway.engine.end_id], "\n\nfour."] if kept is None else [[*whole, *end]]
            )
            gateway.engine.say(*ended)
            thinking = {"type": "enabled", "budget_tokens": budget}
            body = {"model": MODEL, "messages": hello, "max_tokens": 200, "thinking": thinking}
            answer = await gateway.http.post(
                "/v1/messages", json=body | more, headers={"X-Api-Key": begun["api_key"]}
            )
            assert answer.status_code == 200, answer.text
            assert answer.json()["content"][0]["thinking"] == read
            call = gateway.journal.calls.of_episode(begun["episode_id"])[-1]
            assert call.options.get("labels", {}).get("thinking.budget_tokens") == kept


async def test_a_budget_that_is_not_reached_changes_nothing_and_one_without_thoughts_is_refused(
    tmp_path: Path,
) -> None:
    async with running_gateway(tmp_path / "a", family="opens_thoughts", max_tokens=64) as gateway:
        gateway.engine.say("hm\n</think>\n\nfour.", "</think>\n\nfive.", "\n\nsix.")
        begun = await gateway.begin(eval=True)
        contents = []
        for budget in (50, 50, 0):
            answer = await gateway.chat(begun, extra_body={"thinking_budget": budget})
            contents.append(answer.choices[0].message.content)
        assert contents == ["four.", "five.", "six."] and len(gateway.engine.requests) == 3
        form = {"type": "json_object"}
        refused = await gateway.raw_chat(begun["api_key"], thinking_budget=5, response_format=form)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "thinking_budget")
    async with running_gateway(tmp_path / "b") as gateway:
        begun = await gateway.begin(eval=True)
        assert (await gateway.raw_chat(begun["api_key"], thinking_budget=5)).status_code == 400
