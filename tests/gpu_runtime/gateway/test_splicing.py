"""Prompts are made of the ids that the engine has seen, for every family of chat templates."""

import time
from pathlib import Path

import pytest

from gpu_runtime.journal.records import CallRecord
from gpu_runtime.journal.timelines import agents_of, merge
from support.gateway_harness import Gateway, running_gateway

FAMILIES = ["chatml", "chatml_strips_thinking", "smollm2", "llama3", "mistral"]
WITH_TOOLS = ["chatml", "llama3"]
TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}},
}


def odd(gateway: Gateway, text: str) -> list[int]:
    """``text`` in ids that encoding it would never make: byte by byte."""
    ids = [i for letter in text for i in gateway.engine.encode(letter)]
    assert ids != gateway.engine.encode(text)
    assert gateway.renderer.decode(ids) == text
    return ids


def calls(gateway: Gateway, begun: dict) -> list[CallRecord]:
    return gateway.journal.calls.of_episode(begun["episode_id"])


def timelines(gateway: Gateway, begun: dict):
    return [t for pieces in agents_of(calls(gateway, begun)).values() for t in merge(pieces)]


async def turn(gateway: Gateway, begun: dict, messages: list, say, **options) -> None:
    """One call whose answer is appended to ``messages`` as clients do."""
    gateway.engine.say(say)
    answer = await gateway.chat(begun, messages=messages, **options)
    messages.append(answer.choices[0].message.model_dump(exclude_none=True))


@pytest.mark.parametrize("family", FAMILIES)
async def test_conversation_reuses_the_sampled_ids_exactly(tmp_path: Path, family: str) -> None:
    async with running_gateway(tmp_path, family=family, max_context_length=2048) as gateway:
        begun = await gateway.begin()
        messages: list = []
        # Mistral's template writes a space before an answer, and its models sample one.
        said = odd(
            gateway, " The capital is Paris." if family == "mistral" else "The capital is Paris."
        )
        for number in range(3):
            messages.append({"role": "user", "content": f"question {number}"})
            await turn(gateway, begun, messages, [*said, gateway.engine.end_id])
        engine_log = gateway.engine.requests
        for before, after in zip(engine_log, engine_log[1:], strict=False):
            seen = before.prompt_ids + tuple(before.token_ids)
            assert after.prompt_ids[: len(seen)] == seen
        (timeline,) = timelines(gateway, begun)
        assert timeline.token_ids_T == engine_log[-1].prompt_ids + tuple(engine_log[-1].token_ids)
        assert sum(timeline.mask_T) == sum(len(request.token_ids) for request in engine_log)
        # And the text is what the template would have written.
        trimmed = [{**m, "content": m["content"].strip()} for m in messages[:-1]]
        full = gateway.renderer.text(trimmed, [], generation=True)
        assert gateway.renderer.decode(engine_log[-1].prompt_ids, special=True) == full


@pytest.mark.parametrize("family", FAMILIES)
async def test_answer_cut_by_length_is_closed_by_the_template(tmp_path: Path, family: str) -> None:
    async with running_gateway(tmp_path, family=family) as gateway:
        begun = await gateway.begin()
        messages = [{"role": "user", "content": "hello"}]
        await turn(gateway, begun, messages, odd(gateway, "the quick brown fox"), max_tokens=8)
        messages.append({"role": "user", "content": "go on"})
        await turn(gateway, begun, messages, "jumps")
        first, second = gateway.engine.requests
        kept = first.prompt_ids + tuple(first.token_ids)
        assert second.prompt_ids[: len(kept)] == kept
        assert second.prompt_ids[len(kept)] == gateway.engine.end_id, (
            "the end of turn is context, not sampled"
        )
        (timeline,) = timelines(gateway, begun)
        assert timeline.mask_T[len(kept)] == 0


async def test_stop_string_at_a_token_edge_keeps_the_ids_before_it(gateway: Gateway) -> None:
    begun = await gateway.begin()
    messages = [{"role": "user", "content": "hello"}]
    await turn(gateway, begun, messages, odd(gateway, "the#def"), stop=["#"])
    messages.append({"role": "user", "content": "go on"})
    await turn(gateway, begun, messages, "jumps")
    first, second = gateway.engine.requests
    kept = first.prompt_ids + tuple(odd(gateway, "the"))
    assert second.prompt_ids[: len(kept) + 1] == (*kept, gateway.engine.end_id)
    assert sum(sum(t.mask_T) for t in timelines(gateway, begun)) == len(first.token_ids) + len(
        second.token_ids
    )


async def test_stop_string_inside_a_token_starts_a_new_timeline(gateway: Gateway) -> None:
    begun = await gateway.begin()
    messages = [{"role": "user", "content": "hello"}]
    token = gateway.engine.encode(" quick")
    assert len(token) == 1, "the test needs a token that the stop string divides"
    await turn(gateway, begun, messages, [*gateway.engine.encode("the"), *token], stop=["ick"])
    messages.append({"role": "user", "content": "go on"})
    await turn(gateway, begun, messages, "jumps")
    assert calls(gateway, begun)[1].drift["reason"] == "a stop string began inside a token"
    assert len(timelines(gateway, begun)) == 2


async def test_end_that_is_not_the_templates_own_is_left_out_of_the_context(
    gateway: Gateway,
) -> None:
    begun = await gateway.begin()
    messages = [{"role": "user", "content": "hello"}]
    other_end = gateway.renderer.encode("<|endoftext|>")
    ids = [*odd(gateway, "hi there"), *other_end]
    gateway.engine.end_ids |= {*other_end}
    await turn(gateway, begun, messages, ids)
    messages.append({"role": "user", "content": "go on"})
    await turn(gateway, begun, messages, "jumps")
    first, second = gateway.engine.requests
    kept = first.prompt_ids + tuple(first.token_ids[:-1])
    assert second.prompt_ids[: len(kept) + 1] == (*kept, gateway.engine.end_id)
    assert sum(sum(t.mask_T) for t in timelines(gateway, begun)) == len(first.token_ids) + len(
        second.token_ids
    )


async def test_thinking_that_the_template_strips_starts_a_new_timeline(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, family="chatml_strips_thinking") as gateway:
        begun = await gateway.begin()
        messages = [{"role": "user", "content": "hello"}]
        await turn(gateway, begun, messages, "<think>let me</think>four")
        messages.append({"role": "user", "content": "go on"})
        await turn(gateway, begun, messages, "five")
        second = calls(gateway, begun)[1]
        assert second.parent is None
        assert second.drift["continues"] == calls(gateway, begun)[0].id
        assert second.drift["saw"].endswith("<think>let me</think>four<|im_end|>")
        assert "<think>" not in gateway.renderer.decode(second.prompt_ids_P)
        assert len(timelines(gateway, begun)) == 2
        view = (await gateway.end(begun["episode_id"])).json()
        assert view["timelines"] == 2


async def test_thinking_that_the_template_keeps_stays_one_timeline(gateway: Gateway) -> None:
    begun = await gateway.begin()
    messages = [{"role": "user", "content": "hello"}]
    await turn(gateway, begun, messages, "<think>let me</think>four")
    messages.append({"role": "user", "content": "go on"})
    await turn(gateway, begun, messages, "five")
    assert len(timelines(gateway, begun)) == 1


@pytest.mark.parametrize("family", WITH_TOOLS)
async def test_tool_turns_reuse_the_call_as_it_was_sampled(tmp_path: Path, family: str) -> None:
    """The template writes a call's JSON anew; what was sampled (other spaces, other order)
    stays.
    """
    said = {
        "chatml": '<tool_call>\n{"name":"get_weather","arguments":{"b":1, "a":2}}\n</tool_call>',
        "llama3": '{"name":"get_weather","parameters":{"b":1, "a":2}}',
    }[family]
    async with running_gateway(
        tmp_path, family=family, max_tokens=200, max_context_length=2048
    ) as gateway:
        begun = await gateway.begin()
        messages: list = [{"role": "user", "content": "weather?"}]
        for _ in range(2):
            await turn(
                gateway, begun, messages, [*odd(gateway, said), gateway.engine.end_id], tools=[TOOL]
            )
            call_id = messages[-1]["tool_calls"][0]["id"]
            messages.append({"role": "tool", "tool_call_id": call_id, "content": "sunny"})
        await turn(gateway, begun, messages, "It is sunny.", tools=[TOOL])
        assert len(timelines(gateway, begun)) == 1
        assert calls(gateway, begun)[2].drift is None


async def test_arguments_that_a_framework_wrote_anew_are_the_same_call(gateway: Gateway) -> None:
    begun = await gateway.begin()
    messages: list = [{"role": "user", "content": "weather?"}]
    said = '<tool_call>\n{"name":"get_weather","arguments":{"b":1, "a":2}}\n</tool_call>'
    await turn(gateway, begun, messages, said, tools=[TOOL], max_tokens=200)
    messages[-1]["tool_calls"][0]["function"]["arguments"] = '{"a":2,"b":1}'
    messages[-1]["tool_calls"][0]["id"] = "call_renamed"
    messages.append({"role": "tool", "tool_call_id": "call_renamed", "content": "sunny"})
    await turn(gateway, begun, messages, "fine", tools=[TOOL])
    assert len(timelines(gateway, begun)) == 1


async def test_a_forced_call_is_continued_on_its_own_tokens(gateway: Gateway) -> None:
    begun = await gateway.begin()
    messages: list = [{"role": "user", "content": "weather?"}]
    said = '{"name": "get_weather", "arguments": {"a": 2}}\n</tool_call>'
    await turn(gateway, begun, messages, said, tools=[TOOL], tool_choice="required", max_tokens=200)
    messages.append(
        {"role": "tool", "tool_call_id": messages[-1]["tool_calls"][0]["id"], "content": "sunny"}
    )
    await turn(gateway, begun, messages, "fine", tools=[TOOL])
    first, second = gateway.engine.requests
    # with the end of the turn, which comes after the frame
    kept = first.prompt_ids + tuple(first.token_ids)
    assert second.prompt_ids[: len(kept)] == kept
    assert len(timelines(gateway, begun)) == 1


async def test_mistral_moves_its_tools_and_that_is_seen(tmp_path: Path) -> None:
    async with running_gateway(
        tmp_path, family="mistral", max_tokens=200, max_context_length=2048
    ) as gateway:
        begun = await gateway.begin()
        messages: list = [{"role": "user", "content": "weather?"}]
        said = '[TOOL_CALLS] [{"name": "get_weather", "arguments": {}}]'
        await turn(gateway, begun, messages, said, tools=[TOOL])
        call = messages[-1]["tool_calls"][0]
        assert (call["function"]["name"], len(call["id"])) == ("get_weather", 9)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": "sunny"})
        await turn(gateway, begun, messages, "fine", tools=[TOOL])
        assert calls(gateway, begun)[1].drift
        assert calls(gateway, begun)[1].drift["saw"].startswith("<s>[AVAILABLE_TOOLS]")
        assert "[AVAILABLE_TOOLS]" not in gateway.renderer.decode(
            calls(gateway, begun)[1].prompt_ids_P, special=True
        )


async def test_what_a_template_refuses_is_a_400(tmp_path: Path) -> None:
    call = {"id": "short", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asked = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "short", "content": "y"},
    ]
    async with running_gateway(tmp_path, family="mistral") as gateway:
        begun = await gateway.begin()
        answer = await gateway.raw_chat(begun["api_key"], messages=asked)
        assert answer.status_code == 400
        assert "IDs should be of length 9" in answer.json()["error"]["message"]


async def test_a_template_without_a_system_has_its_text_as_a_users(tmp_path: Path) -> None:
    system, hello = {"role": "system", "content": "brief"}, {"role": "user", "content": "hello"}
    async with running_gateway(tmp_path, family="mistral") as gateway:
        begun = await gateway.begin()
        await turn(
            gateway, begun, [system, system, hello], [*odd(gateway, "hi"), gateway.engine.end_id]
        )
        said = gateway.renderer.decode(gateway.engine.requests[0].prompt_ids, special=True)
        assert said == "<s>[INST] <system>\nbrief\n\nbrief\n</system>[/INST][INST] hello[/INST]"
        answer = {"role": "assistant", "content": "hi"}
        await turn(gateway, begun, [system, system, hello, answer, system, hello], "ok")
        labels = [call.options["labels"] for call in calls(gateway, begun)]
        assert labels[0]["first system message"] == "as turns of a user in <system> marks"
        assert len(timelines(gateway, begun)) == 1


async def test_fork_continues_the_same_ids_twice(gateway: Gateway) -> None:
    begun = await gateway.begin()
    messages = [{"role": "user", "content": "hello"}]
    await turn(gateway, begun, messages, [*odd(gateway, "hi there"), gateway.engine.end_id])
    for question in ("left", "right"):
        await turn(gateway, begun, [*messages, {"role": "user", "content": question}], "ok")
    assert len(timelines(gateway, begun)) == 2
    total = sum(len(request.token_ids) for request in gateway.engine.requests)
    assert sum(sum(timeline.mask_T) for timeline in timelines(gateway, begun)) == total


async def test_equal_texts_with_other_ids_continue_their_own_answer(gateway: Gateway) -> None:
    """Best of n inside an agent: the client echoes a tool call by its id."""
    begun = await gateway.begin()
    said = '<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'
    gateway.engine.say(
        [*gateway.engine.encode(said), gateway.engine.end_id],
        [*odd(gateway, said), gateway.engine.end_id],
    )
    messages: list = [{"role": "user", "content": "weather?"}]
    answer = await gateway.chat(begun, messages=messages, tools=[TOOL], n=2, max_tokens=200)
    for choice in answer.choices:
        call_id = choice.message.tool_calls[0].id
        follow_up = [*messages, choice.message.model_dump(exclude_none=True)]
        follow_up.append({"role": "tool", "tool_call_id": call_id, "content": "sunny"})
        await gateway.chat(begun, messages=follow_up, tools=[TOOL])
        seen = gateway.engine.requests[-1].prompt_ids
        before = tuple(answer.prompt_token_ids) + tuple(choice.token_ids)
        assert seen[: len(before)] == before


async def test_other_tools_are_another_conversation(gateway: Gateway) -> None:
    begun = await gateway.begin()
    messages = [{"role": "user", "content": "hello"}]
    await turn(gateway, begun, messages, "hi", tools=[TOOL])
    messages.append({"role": "user", "content": "go on"})
    await turn(gateway, begun, messages, "hi")
    assert len(timelines(gateway, begun)) == 2


async def test_restart_in_the_middle_of_a_conversation_still_reuses_its_ids(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "hello"}]
    async with running_gateway(tmp_path) as gateway:
        begun = await gateway.begin()
        await turn(gateway, begun, messages, [*odd(gateway, "hi there"), gateway.engine.end_id])
        first = gateway.engine.requests[0]
    messages.append({"role": "user", "content": "go on"})
    async with running_gateway(tmp_path) as gateway:
        await turn(gateway, begun, messages, "ok")
        before = first.prompt_ids + tuple(first.token_ids)
        assert gateway.engine.requests[0].prompt_ids[: len(before)] == before
        assert len(timelines(gateway, begun)) == 1


@pytest.mark.system
async def test_very_long_conversation_takes_seconds_of_the_processor(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, max_context_length=1_000_000) as gateway:
        begun = await gateway.begin()
        messages: list = []
        for number in range(5_000):
            messages += [
                {"role": "user", "content": f"q{number}"},
                {"role": "assistant", "content": "a"},
            ]
        messages[-1:] = []
        gateway.engine.say("ok", "ok")
        started = time.process_time()  # not of the clock: other processes may have the machine
        for _ in range(2):
            answer = await gateway.raw_chat(begun["api_key"], messages=messages)
            assert answer.status_code == 200, answer.text
            messages += [
                answer.json()["choices"][0]["message"],
                {"role": "user", "content": "again"},
            ]
        assert calls(gateway, begun)[1].parent
        assert time.process_time() - started < 20
