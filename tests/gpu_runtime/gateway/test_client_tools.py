"""Tools of other types than functions that a client runs itself: the model is shown functions, and
the client gets the items and blocks of its dialect. One loop with each is one timeline."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from clients.outside_agents import timelines_of

from support.gateway_harness import MODEL, Gateway, running_gateway

USER: dict[str, Any] = {"role": "user", "content": "go"}
FOUND = {
    "type": "namespace",
    "name": "mail",
    "description": "Of mail.",
    "tools": [
        {
            "type": "function",
            "name": "send",
            "defer_loading": True,
            "parameters": {"type": "object"},
        }
    ],
}
SEARCH = {
    "type": "tool_search",
    "execution": "client",
    "description": "Finds tools.",
    "parameters": {"type": "object", "properties": {"goal": {"type": "string"}}},
}
FUNCTION = {"type": "function", "name": "look", "parameters": {"type": "object"}}


@pytest.fixture
async def roomy(tmp_path: Path) -> AsyncIterator[Gateway]:
    """With room for whole calls."""
    async with running_gateway(tmp_path, max_context_length=8192, max_tokens=512) as served:
        yield served


def written(name: str, **arguments: Any) -> str:
    call = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{call}\n</tool_call>"


async def respond(
    gateway: Gateway, begun: dict[str, Any], *, stream: bool = False, **body: Any
) -> dict[str, Any]:
    """The body of a response, by its last event where it streams."""
    answer = await gateway.http.post(
        "/v1/responses",
        json={"model": MODEL, "stream": stream, "max_output_tokens": 200} | body,
        headers={"Authorization": f"Bearer {begun['api_key']}"},
    )
    assert answer.status_code == 200, answer.text
    if not stream:
        return answer.json()
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    events = [json.loads(line) for line in lines]
    done = [each["item"] for each in events if each["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]
    return events[-1]["response"]


def prompt(gateway: Gateway, number: int = -1) -> str:
    return gateway.renderer.decode(gateway.engine.requests[number].prompt_ids, special=True)


def is_one_timeline(gateway: Gateway, begun: dict[str, Any], calls: int) -> bool:
    found = gateway.journal.calls.of_episode(begun["episode_id"])
    return timelines_of(found) == [list(range(calls))]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_local_shell_is_a_function_to_the_model(roomy: Gateway, stream: bool) -> None:
    roomy.engine.say(written("local_shell", command=["echo", "1"], timeout_ms=5), "done")
    begun = await roomy.begin()
    asked: dict[str, Any] = {"tools": [{"type": "local_shell"}, FUNCTION], "stream": stream}
    [item] = (await respond(roomy, begun, input=[USER], **asked))["output"]
    action = {"type": "exec", "command": ["echo", "1"], "env": {}, "timeout_ms": 5}
    assert (item["type"], item["action"]) == ("local_shell_call", action)
    assert '"name": "local_shell"' in prompt(roomy)
    assert '"working_directory": {"type": "string"}' in prompt(roomy), "its parameters are shown"
    # OpenAI's items have every field of an action
    item["action"] |= {"user": None, "working_directory": None}
    output = {"type": "local_shell_call_output", "call_id": item["call_id"], "output": "1\n"}
    after = await respond(roomy, begun, input=[USER, item, output], **asked)
    assert after["output"][0]["type"] == "message" and is_one_timeline(roomy, begun, 2)


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "local_shell"},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "local_shell"}]},
    ],
)
async def test_a_shell_is_chosen_by_its_type(roomy: Gateway, choice: dict[str, Any]) -> None:
    roomy.engine.say(written("local_shell", command=["ls"]))
    tools = [FUNCTION, {"type": "local_shell"}]
    begun = await roomy.begin()
    answer = await respond(roomy, begun, input=[USER], tools=tools, tool_choice=choice)
    assert answer["output"][0]["type"] == "local_shell_call"
    [asked] = roomy.engine.requests
    held = str(asked.options.structural_tag)
    assert "local_shell" in held and "look" not in held


async def test_a_shell_call_can_be_named_by_its_id_and_by_the_response(roomy: Gateway) -> None:
    roomy.engine.say(written("local_shell", command=["ls"]), "one", "two")
    begun, asked = await roomy.begin(), {"tools": [{"type": "local_shell"}]}
    first = await respond(roomy, begun, input=[USER], **asked)
    [item] = first["output"]
    output = {"type": "local_shell_call_output", "id": item["call_id"], "output": "a"}
    goes_on = {"previous_response_id": first["id"], "input": [output]}
    await respond(roomy, begun, **goes_on, **asked)
    reference = {"type": "item_reference", "id": item["id"]}
    await respond(roomy, begun, input=[USER, reference, output], **asked)
    assert prompt(roomy, 1) == prompt(roomy, 2)


@pytest.mark.parametrize("command", ["ls -l", None])
async def test_a_shell_call_of_another_form_is_a_list_to_the_client(
    roomy: Gateway, command: str | None
) -> None:
    roomy.engine.say(written("local_shell", **({"command": command} if command else {})))
    answer = await respond(
        roomy, await roomy.begin(), input=[USER], tools=[{"type": "local_shell"}]
    )
    assert answer["output"][0]["action"]["command"] == ([command] if command else [])


@pytest.mark.parametrize("stream", [False, True])
async def test_what_a_clients_search_finds_can_be_called(roomy: Gateway, stream: bool) -> None:
    roomy.engine.say(written("tool_search", goal="mail"), written("mail__send"), "done")
    begun, asked = await roomy.begin(), {"tools": [SEARCH, FUNCTION], "stream": stream}
    [search] = (await respond(roomy, begun, input=[USER], **asked))["output"]
    assert (search["type"], search["execution"]) == ("tool_search_call", "client")
    assert search["arguments"] == {"goal": "mail"} and "Finds tools." in prompt(roomy)
    found = {
        "type": "tool_search_output",
        "call_id": search["call_id"],
        "execution": "client",
        "status": "completed",
        "tools": [FOUND],
    }
    turns = [USER, search, found]
    [call] = (await respond(roomy, begun, input=turns, **asked))["output"]
    assert '{"name": "mail__send", "description": "Of mail."' in prompt(roomy)
    assert (call["type"], call["namespace"], call["name"]) == ("function_call", "mail", "send")
    turns += [
        call,
        {"type": "function_call_output", "call_id": call["call_id"], "output": "sent"},
    ]
    await respond(roomy, begun, input=turns, **asked)
    assert is_one_timeline(roomy, begun, 3)


@pytest.mark.parametrize(
    ("path", "tool"),
    [
        ("/v1/responses", {"type": "tool_search"}),
        ("/v1/responses", {"type": "tool_search", "execution": "server"}),
        (
            "/v1/messages",
            {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
        ),
        ("/v1/messages", {"type": "tool_search_tool_regex", "name": "tool_search_tool_regex"}),
    ],
)
async def test_a_search_of_the_server_finds_nothing_and_is_left_out_with_a_record(
    gateway: Gateway, path: str, tool: dict[str, Any]
) -> None:
    begun = await gateway.begin()
    named = {"name": "look", "input_schema": {"type": "object"}, "defer_loading": True}
    body: dict[str, Any] = {"model": MODEL, "tools": [tool, named]}
    body |= {"messages": [USER], "max_tokens": 8}
    if path == "/v1/responses":
        body = {
            "model": MODEL,
            "input": [USER],
            "tools": [FUNCTION | {"defer_loading": True}, tool],
        }
    answer = await gateway.http.post(
        path, json=body, headers={"Authorization": f"Bearer {begun['api_key']}"}
    )
    assert answer.status_code == 200, answer.text
    [call] = gateway.journal.calls.of_episode(begun["episode_id"])
    assert call.options["labels"]["tools left out"] == [tool] and '"look"' in prompt(gateway)


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ({"type": "bash_20250124", "name": "bash"}, {"command": "ls"}),
        (
            {
                "type": "text_editor_20250728",
                "name": "str_replace_based_edit_tool",
                "max_characters": 99,
            },
            {"command": "view", "path": "/a"},
        ),
        (
            {"type": "text_editor_20250124", "name": "str_replace_editor"},
            {"command": "undo_edit", "path": "/a"},
        ),
        (
            {"type": "memory_20250818", "name": "memory", "cache_control": {"type": "ephemeral"}},
            {"command": "view", "path": "/memories"},
        ),
    ],
)
async def test_a_tool_of_anthropics_that_the_client_runs_is_a_function(
    roomy: Gateway, tool: dict[str, Any], given: dict[str, Any]
) -> None:
    roomy.engine.say(written(tool["name"], **given), "done")
    begun = await roomy.begin()
    body: dict[str, Any] = {"model": MODEL, "max_tokens": 300, "tools": [tool]}
    key, turns = {"Authorization": f"Bearer {begun['api_key']}"}, [USER]
    for number in range(2):
        answer = await roomy.http.post("/v1/messages", json=body | {"messages": turns}, headers=key)
        assert answer.status_code == 200, answer.text
        content = answer.json()["content"]
        if number == 0:
            [use] = content
            assert (use["type"], use["name"], use["input"]) == ("tool_use", tool["name"], given)
            result = {"type": "tool_result", "tool_use_id": use["id"], "content": "ok"}
            turns = [
                USER,
                {"role": "assistant", "content": content},
                {"role": "user", "content": [result]},
            ]
    assert is_one_timeline(roomy, begun, 2) and f'"name": "{tool["name"]}"' in prompt(roomy)
    first = roomy.journal.calls.of_episode(begun["episode_id"])[0]
    assert first.options["labels"]["client tools"] == [tool]
