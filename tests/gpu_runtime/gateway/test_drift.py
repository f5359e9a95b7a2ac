"""A call that continues another and does not share its timeline says why: what changed, where, and
what changed it.
"""

from typing import Any

import pytest

from support.gateway_harness import Gateway

HELLO = {"role": "user", "content": "hello there"}
NEXT = {"role": "user", "content": "go on"}
TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}},
}


async def drift_of(
    gateway: Gateway, *conversations: list[dict[str, Any]], **options: Any
) -> list[dict[str, Any]]:
    """The report's drift points after one call for each of ``conversations``, whose answers are
    "four".
    """
    begun = await gateway.begin()
    for messages in conversations:
        gateway.engine.say("four")
        await gateway.chat(begun, messages=messages, **options)
    page = await gateway.internal("GET", f"/episodes/{begun['episode_id']}/calls")
    return page.json()["report"]["drift"]


async def test_an_answer_that_the_client_changed_is_its_doing(gateway: Gateway) -> None:
    (point,) = await drift_of(
        gateway, [HELLO], [HELLO, {"role": "assistant", "content": "Paris"}, NEXT]
    )
    assert (point["cause"], point["message"]) == ("client", 1)
    assert "four" in point["saw"] and "Paris" in point["renders"]
    first = gateway.engine.requests[0]
    assert point["token"] == len(first.prompt_ids), "the first token of the answer"


async def test_a_text_beside_a_call_that_the_client_changed_is_its_doing(gateway: Gateway) -> None:
    begun = await gateway.begin()
    gateway.engine.say(
        'I look.\n<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'
    )
    options = {"tools": [TOOL], "max_tokens": 100}
    message = (await gateway.chat(begun, messages=[HELLO], **options)).choices[0].message
    echo = message.model_dump(exclude_none=True) | {"content": "I ask."}
    result = {"role": "tool", "tool_call_id": echo["tool_calls"][0]["id"], "content": "sun"}
    await gateway.chat(begun, messages=[HELLO, echo, result], **options)
    (_, call) = gateway.journal.calls.of_episode(begun["episode_id"])
    assert (call.drift["cause"], call.drift["message"]) == ("client", 1)
    assert "I ask." in gateway.renderer.decode(call.prompt_ids_P)


async def test_an_answer_that_the_client_left_out_is_its_doing(gateway: Gateway) -> None:
    (point,) = await drift_of(gateway, [HELLO], [HELLO, NEXT])
    assert (point["cause"], point["message"]) == ("client", 1)


async def test_a_message_that_the_client_edited_is_its_doing(gateway: Gateway) -> None:
    four, edited = (
        {"role": "assistant", "content": "four"},
        {"role": "user", "content": "go on then"},
    )
    conversation = [HELLO, four, NEXT]
    changed = [HELLO, four, edited, four, NEXT]
    (point,) = await drift_of(gateway, [HELLO], conversation, changed)
    assert (point["cause"], point["message"]) == ("client", 2)


@pytest.mark.parametrize(
    "second",
    [
        pytest.param([HELLO], id="the same question again"),
        pytest.param(
            [HELLO, {"role": "assistant", "content": " four\n"}, NEXT], id="a continuation"
        ),
        pytest.param([{"role": "user", "content": "another task"}], id="another conversation"),
    ],
)
async def test_what_merges_or_continues_nothing_is_no_drift(
    gateway: Gateway, second: list[dict[str, Any]]
) -> None:
    assert await drift_of(gateway, [HELLO], second) == []


async def test_a_fork_is_no_drift(gateway: Gateway) -> None:
    four = {"role": "assistant", "content": "four"}
    fork = [HELLO, four, {"role": "user", "content": "something else"}]
    assert await drift_of(gateway, [HELLO], [HELLO, four, NEXT], fork) == []


async def test_a_client_that_changes_a_call_sees_it(gateway: Gateway) -> None:
    begun = await gateway.begin()
    gateway.engine.say(
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>', "sunny"
    )
    answer = await gateway.chat(begun, messages=[HELLO], tools=[TOOL], max_tokens=200)
    message = answer.choices[0].message.model_dump(exclude_none=True)
    message["tool_calls"][0]["function"]["arguments"] = '{"city": "Oslo"}'
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "sunny"}
    await gateway.chat(begun, messages=[HELLO, message, result], tools=[TOOL])
    drift = gateway.journal.calls.of_episode(begun["episode_id"])[1].drift
    assert (drift["cause"], drift["message"]) == ("client", 1)


SYSTEM = "You help.\nThe branch is {}.\nBe brief."


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        pytest.param(
            {"branch": "dev"}, "the client changed the system's text", id="a line of the system"
        ),
        pytest.param(
            {"tools": [TOOL]}, "the client sent other tools: get_weather added", id="tools"
        ),
    ],
)
async def test_a_beginning_that_the_client_changed_is_named(
    gateway: Gateway, second: dict[str, Any], reason: str
) -> None:
    begun = await gateway.begin()
    gateway.engine.say("four", "five")
    system = [
        {"role": "system", "content": SYSTEM.format(branch)}
        for branch in ("main", second.pop("branch", "main"))
    ]
    await gateway.chat(begun, messages=[system[0], HELLO])
    goes_on = [system[1], HELLO, {"role": "assistant", "content": "four"}, NEXT]
    await gateway.chat(begun, messages=goes_on, **second)
    drift = gateway.journal.calls.of_episode(begun["episode_id"])[1].drift
    assert (drift["cause"], drift["message"], drift["reason"]) == ("client", 0, reason)
    if "tools" not in second:
        assert (drift["saw"], drift["renders"]) == ("The branch is main.", "The branch is dev.")
    assert drift["saw"] != drift["renders"]


@pytest.mark.parametrize(
    ("text", "is_drift"),
    [
        pytest.param(SYSTEM.format("dev"), True, id="one line"),
        pytest.param("You plan.\nSay nothing.", False, id="another agent"),
    ],
)
async def test_the_same_question_under_another_system(
    gateway: Gateway, text: str, is_drift: bool
) -> None:
    systems = [{"role": "system", "content": each} for each in (SYSTEM.format("main"), text)]
    found = await drift_of(gateway, *([system, HELLO] for system in systems))
    assert [point["renders"] for point in found] == (["The branch is dev."] if is_drift else [])


async def test_a_text_that_departs_from_an_earlier_answer_names_the_line(gateway: Gateway) -> None:
    begun = await gateway.begin()
    gateway.engine.say("four", "five")
    client = gateway.openai(begun)
    for prompt in ("Two and two?\n", "Two and two?\nFour.\nMore?"):
        await client.completions.create(model="tiny-model", prompt=prompt)
    drift = gateway.journal.calls.of_episode(begun["episode_id"])[1].drift
    assert (
        drift["cause"] == "client"
        and drift["saw"].startswith("four")
        and drift["renders"] == "Four."
    )
