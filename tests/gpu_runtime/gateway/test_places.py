"""A refusal names the client's own field, in every dialect, however late the fault is found: by a
check of the history, in the template, in a tool behind one that was left out.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.gateway.bodies import Places
from gpu_runtime.gateway.openai.responses_requests import CountRequest
from gpu_runtime.gateway.openai.responses_tools import tools_place
from gpu_runtime.rendering.fault_place import fault_place
from support.gateway_harness import MODEL, running_gateway

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
ASK = {"role": "user", "content": "weather?"}
MORE = {"role": "user", "content": "and now?"}
OF_CHAT = {"type": "function", "function": {"name": "f"}}


def chat_call(call_id: str = "call12345", arguments: str = "{}", **more: Any) -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": call_id, "function": function}], **more}


def chat_result(call_id: str = "call12345") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "sun"}


def item_call(call_id: str = "call12345", arguments: str = "{}") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": arguments}


def item_result(call_id: str = "call12345") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "sun"}


def block_call(call_id: str = "call12345") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {}}


def block_result(call_id: str = "call12345") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "sun"}


def turn(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


SAYS = {"type": "text", "text": "I look."}
THOUGHTS = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
THINKING = {"type": "thinking", "thinking": "hm"}
CASES = [
    # a result without its call, behind one that has it
    (
        "chatml",
        CHAT,
        [ASK, chat_call(), chat_result(), chat_result("x")],
        "messages.3.tool_call_id",
    ),
    ("chatml", RESPONSES, [ASK, item_call(), item_result(), item_result("x")], "input.3.call_id"),
    (
        "chatml",
        MESSAGES,
        [ASK, turn("assistant", block_call()), turn("user", block_result(), block_result("x"))],
        "messages.2.content.1",
    ),
    # arguments that are no object
    (
        "chatml",
        CHAT,
        [ASK, chat_call(arguments='{"a"'), chat_result()],
        "messages.1.tool_calls.0.function.arguments",
    ),
    (
        "chatml",
        RESPONSES,
        [ASK, item_call(), item_call("b", '{"a"'), item_result(), item_result("b")],
        "input.2.arguments",
    ),
    # thoughts for a template without them, under the name that they came with
    (
        "smollm2",
        CHAT,
        [ASK, {"role": "assistant", "reasoning": "hm"}, MORE],
        "messages.1.reasoning",
    ),
    ("smollm2", RESPONSES, [ASK, THOUGHTS, {"role": "assistant", "content": "x"}, MORE], "input.1"),
    ("smollm2", RESPONSES, [ASK, THOUGHTS, MORE], "input.1"),
    ("smollm2", MESSAGES, [ASK, turn("assistant", SAYS, THINKING), MORE], "messages.1.content.1"),
    # calls for a template without them
    ("smollm2", CHAT, [ASK, chat_call(), chat_result()], "messages.1.tool_calls.0"),
    ("smollm2", RESPONSES, [ASK, item_call(), item_result()], "input.1"),
    (
        "smollm2",
        MESSAGES,
        [ASK, turn("assistant", SAYS, block_call()), turn("user", block_result())],
        "messages.1.content.1",
    ),
    # two calls for a template that writes one
    (
        "llama3",
        RESPONSES,
        [ASK, item_call(), item_call("b"), item_result(), item_result("b")],
        "input.2",
    ),
    # what the template itself refuses
    ("mistral", CHAT, [ASK, chat_call("short"), chat_result("short"), MORE], "messages.1"),
    ("mistral", RESPONSES, [ASK, item_call("short"), item_result("short"), MORE], "input.1"),
    (
        "mistral",
        MESSAGES,
        [
            ASK,
            turn("assistant", block_call()),
            turn("user", block_result(), SAYS),
            turn("assistant", block_call("short")),
            turn("user", block_result("short")),
        ],
        "messages.3",
    ),
]


def bracketed(said: str) -> str:
    """Paths as OpenAI writes them."""
    return re.sub(r"\.(\d+)", r"[\1]", said)


@pytest.mark.parametrize("with_system", [False, True])
@pytest.mark.parametrize(("family", "path", "sent", "place"), CASES)
async def test_a_fault_that_is_found_late_names_the_clients_own_field(
    tmp_path: Path,
    family: str,
    path: str,
    sent: list[dict[str, Any]],
    place: str,
    with_system: bool,
) -> None:
    if with_system and path == CHAT:
        return  # its system text is one of the messages
    system = {RESPONSES: {"instructions": "Be brief."}, MESSAGES: {"system": "Be brief."}}
    async with running_gateway(tmp_path, family=family, max_context_length=2048) as gateway:
        begun = await gateway.begin()
        body = {"model": MODEL, "input" if path == RESPONSES else "messages": sent}
        body |= {"max_tokens": 8} if path == MESSAGES else {}
        body |= system.get(path, {}) if with_system else {}
        headers = {"Authorization": f"Bearer {begun['api_key']}"}
        answer = await gateway.http.post(path, json=body, headers=headers)
        error = answer.json()["error"]
        assert answer.status_code == 400 and gateway.engine.requests == [], answer.text
        said = place.removesuffix(".call_id").removesuffix(".tool_call_id")
        if path != MESSAGES:
            assert error["param"] == bracketed(place), error
            said = bracketed(said)
        assert re.search(rf"{re.escape(said)}(:| is )", error["message"]), error
        (refused,) = [each.refused for each in gateway.episodes.open.all()]
        assert bracketed(refused.view().last[-1].message) == bracketed(error["message"])


@pytest.mark.parametrize(
    ("path", "left_out", "bad"),
    [
        (RESPONSES, {"type": "web_search"}, {"type": "function", "name": "not a name"}),
        (
            MESSAGES,
            {"type": "web_search_20250305", "name": "web_search"},
            {"name": "not a name", "input_schema": {}},
        ),
    ],
)
async def test_a_tool_behind_one_that_is_left_out_keeps_its_number(
    tmp_path: Path, path: str, left_out: dict[str, Any], bad: dict[str, Any]
) -> None:
    async with running_gateway(tmp_path) as gateway:
        begun = await gateway.begin()
        body = {"model": MODEL, "tools": [left_out, bad]}
        body |= {"messages": [ASK], "max_tokens": 8} if path == MESSAGES else {"input": "x"}
        headers = {"Authorization": f"Bearer {begun['api_key']}"}
        answer = await gateway.http.post(path, json=body, headers=headers)
    error = answer.json()["error"]
    assert answer.status_code == 400 and bracketed("tools.1.name") in bracketed(error["message"])
    assert path == MESSAGES or error["param"] == "tools[1].name"


CHAT_TOOL = {"type": "function", "function": {"name": "f"}}
JSON = {"type": "json_object"}


@pytest.mark.parametrize(
    ("path", "option", "param", "said"),
    [
        (RESPONSES, {"tools": [CHAT_TOOL]}, "tools[0].name", "tools[0].name: "),
        (RESPONSES, {"tool_choice": CHAT_TOOL}, "tool_choice.name", "tool_choice.name: "),
        (RESPONSES, {"response_format": JSON}, "response_format", "option response_format"),
        (RESPONSES, {"max_completion_tokens": 9}, "max_completion_tokens", "max_completion_tokens"),
        (
            RESPONSES,
            {"text": {"format": JSON}, "structured_outputs": {"json": {}}},
            "structured_outputs",
            "text.format say the same",
        ),
        (
            CHAT,
            {"messages": [ASK, chat_call(), chat_result() | {"content": {"a": 1}}]},
            "messages[2].content",
            "messages[2].content: ",
        ),
        (
            CHAT,
            {"messages": [{"role": "system", "content": None}, ASK]},
            "messages[0].content",
            "messages[0].content: it cannot be null",
        ),
        (
            RESPONSES,
            {"input": [item_call(), item_result() | {"output": None}]},
            "input[1].output",
            "input[1].output: it cannot be null",
        ),
        (
            CHAT,
            {"tools": [{"type": "function", "function": {}}]},
            "tools[0].function.name",
            "tools[0].function.name: ",
        ),
    ],
)
async def test_an_option_is_named_as_it_was_sent(
    tmp_path: Path, path: str, option: dict[str, Any], param: str, said: str
) -> None:
    async with running_gateway(tmp_path) as gateway:
        begun = await gateway.begin()
        body = {"model": MODEL} | ({"input": "x"} if path == RESPONSES else {"messages": [ASK]})
        headers = {"Authorization": f"Bearer {begun['api_key']}"}
        answer = await gateway.http.post(path, json=body | option, headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param) and said in error["message"], error


async def test_an_answer_that_the_client_began_is_refused_where_it_would_be_continued(
    tmp_path: Path,
) -> None:
    async with running_gateway(tmp_path) as gateway:
        key = (await gateway.begin())["api_key"]
        began = [ASK, {"role": "assistant", "content": "It is"}]
        body = {"model": MODEL, "max_tokens": 8, "messages": began}
        refused = await gateway.http.post(MESSAGES, json=body, headers={"X-Api-Key": key})
        assert refused.status_code == 400, refused.text
        assert refused.json()["error"]["message"].startswith("messages.1: ")
        # in OpenAI's dialects the answer is a message of its own
        assert (await gateway.raw_chat(key, messages=began)).status_code == 200


def test_what_is_no_part_of_this_request_is_named_by_what_brought_it() -> None:
    places = Places()
    places.add("messages.0", "instructions", is_whole=True)
    places.add("messages.1", "previous_response_id", is_whole=True)
    assert places.own("messages.0.content") == "instructions"
    assert places.own("messages.1.tool_calls.0.id") == "previous_response_id"
    assert places.own("messages.11") == "messages.11"
    assert places.said("messages.1: no. See messages, and messages.2.") == (
        "previous_response_id: no. See messages, and messages.2."
    )


def test_a_function_of_a_namespace_has_its_place_in_it() -> None:
    function = {"type": "function", "name": "f"}
    group = {"type": "namespace", "name": "n", "tools": [function, function | {"name": "g"}]}
    asked = CountRequest.model_validate(
        {"model": "m", "input": "x", "tools": [function, group, {"type": "local_shell"}]}
    )
    places = Places()
    places.add("tools.1", "tools.2")  # another was left out before it
    places.add("tools.2", "tools.3")
    tools_place(asked.tools or [], places)
    paths = [places.own(f"tools.{number}.function.name") for number in range(4)]
    assert paths == ["tools.0.name", "tools.2.tools.0.name", "tools.2.tools.1.name", "tools.3.name"]


def test_the_place_of_a_fault_is_the_first_message_or_tool_that_brings_it() -> None:
    messages = [{"role": "user", "content": str(number)} for number in range(9)]
    renders = []

    def refuses(*bad: str) -> Any:
        def is_refused(some: Any, tools: Any) -> bool:
            renders.append(len(some))
            return any(each.get("content", each.get("name")) in bad for each in [*some, *tools])

        return is_refused

    assert fault_place(messages, [], refuses("5", "7")) == "messages.5"
    assert fault_place(messages, [], refuses("0")) == "messages.0"
    assert len(renders) <= 2 * 6
    tools = [{"name": "f"}, {"name": "g"}, {"name": "h"}]
    assert fault_place(messages, tools, refuses("g")) == "tools.1"
    assert fault_place(messages, tools, refuses("8")) == "messages.8"
    assert (
        fault_place(messages, [], lambda some, tools: True) is None
    )  # a user's message is missing
    assert fault_place(messages[:1], [], refuses("0")) is None


async def test_a_conversation_that_lacks_something_has_no_place_in_it(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, family="qwen3_6") as gateway:
        begun = await gateway.begin()
        says = [{"role": "assistant", "content": "x"}, {"role": "assistant", "content": "y"}]
        for path, body in ((CHAT, {"messages": says}), (RESPONSES, {"input": says})):
            headers = {"Authorization": f"Bearer {begun['api_key']}"}
            answer = await gateway.http.post(path, json={"model": MODEL} | body, headers=headers)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, *body), (
                answer.text
            )
