"""What Claude Code and Codex send, as recorded and reduced to its shape: nothing of it is refused,
three turns are one timeline, and what changes no answer is kept with the call."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from clients.outside_agents import timelines_of

from support.gateway_harness import MODEL, Gateway, running_gateway

RECORDED = Path(__file__).with_name("recorded")
PATHS = {"claude_code": "/v1/messages?beta=true", "codex": "/v1/responses"}
ROOM = {"max_context_length": 16_384, "max_tokens": 512}
CALLS = {
    "claude_code": ("Bash", {"command": "echo turn{}", "description": "say"}),
    "codex": ("exec_command", {"cmd": "echo turn{}"}),
}


def recorded(agent: str) -> dict[str, Any]:
    return json.loads((RECORDED / f"{agent}.json").read_text())


def bracketed(param: str) -> str:
    return re.sub(r"\.(\d+)", r"[\1]", param)


async def send(
    gateway: Gateway, begun: dict[str, Any], path: str, body: dict[str, Any], **headers: str
) -> httpx.Response:
    return await gateway.http.post(
        path, json=body, headers={"Authorization": f"Bearer {begun['api_key']}"} | headers
    )


def labels_of(gateway: Gateway, begun: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        call.options.get("labels", {})
        for call in gateway.journal.calls.of_episode(begun["episode_id"])
    ]


def prompt(gateway: Gateway, number: int = -1) -> str:
    return gateway.renderer.decode(gateway.engine.requests[number].prompt_ids, special=True)


def written(agent: str, family: str, number: int) -> str:
    """Call ``number`` of the recording, as the family's model writes it."""
    name, arguments = CALLS[agent]
    said = {key: value.format(number) for key, value in arguments.items()}
    if family == "qwen3_6":
        inside = "".join(
            f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in said.items()
        )
        return f"I look.\n</think>\n\n<tool_call>\n<function={name}>\n{inside}</function>\n</tool_call>"
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': said})}\n</tool_call>"


@pytest.mark.parametrize("family", ["qwen2_5", "qwen3", "qwen3_6"])
@pytest.mark.parametrize("agent", PATHS)
async def test_three_recorded_turns_are_one_timeline(
    tmp_path: Path, agent: str, family: str
) -> None:
    turns = "messages" if agent == "claude_code" else "input"
    async with running_gateway(tmp_path, family=family, **ROOM) as gateway:
        gateway.engine.say(*(written(agent, family, number) for number in (0, 1)), "done 2")
        begun, again = await gateway.begin(), recorded(agent)["again"]
        for body in (recorded(agent)["first"], again | {turns: again[turns][:-2]}, again):
            answer = await send(gateway, begun, PATHS[agent], body)
            assert answer.status_code == 200, answer.text
        calls = gateway.journal.calls.of_episode(begun["episode_id"])
        assert timelines_of(calls) == [[0, 1, 2]] and [call.drift for call in calls] == [None] * 3
        resumed = await send(gateway, begun, PATHS[agent], recorded(agent)["resumed"])
        assert resumed.status_code == 200, resumed.text


@pytest.mark.parametrize(
    ("path", "option"),
    [
        ("/v1/messages", {"mcp_servers": []}),
        ("/v1/messages", {"cache_control": {"type": "ephemeral"}}),
        ("/v1/chat/completions", {"prediction": {"type": "content", "content": "x"}}),
        ("/v1/chat/completions", {"service_tier": "flex", "store": False}),
        (
            "/v1/responses",
            {"client_metadata": {"session": "s1"}, "reasoning": {"effort": "medium"}},
        ),
    ],
)
async def test_what_some_dialects_alone_have_is_a_label(
    gateway: Gateway, path: str, option: dict[str, Any]
) -> None:
    begun = await gateway.begin()
    answer = await send(gateway, begun, path, body_of(path, **option))
    assert answer.status_code == 200, answer.text
    assert labels_of(gateway, begun)[0].keys() & {*option, "reasoning_effort"}


async def test_the_labels_of_both_agents_are_kept(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, **ROOM) as gateway:
        begun = await gateway.begin()
        for agent, path in PATHS.items():
            answer = await send(
                gateway, begun, path, recorded(agent)["first"], **{"anthropic-beta": "x-2026-01-01"}
            )
            assert answer.status_code == 200, answer.text
        claude, codex = labels_of(gateway, begun)
    assert claude["context_management"] == {
        "edits": [{"type": "clear_thinking_20251015", "keep": "all"}]
    }
    assert claude["tools.*.defer_loading"] == [True] and claude["thinking.display"] == "omitted"
    assert (
        claude["reasoning_effort"] == "high" and claude["header anthropic-beta"] == "x-2026-01-01"
    )
    assert claude["accounting line"].startswith("x-anthropic-billing-header: cc_version=2.1.332")
    assert claude["later system messages"] == {"messages": [2], "written": "as turns of the system"}
    assert codex["tools left out"] == [{"type": "web_search", "external_web_access": True}]
    assert codex["reasoning_effort"] == "medium" and "thread_id" in codex["client_metadata"]
    assert codex["system messages merged"] == 2


TOOL: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "type": "function",
        "function": {"name": "look", "parameters": {"type": "object"}},
    },
    "/v1/responses": {"type": "function", "name": "look", "parameters": {"type": "object"}},
    "/v1/messages": {"name": "look", "input_schema": {"type": "object"}},
}


def body_of(path: str, **options: Any) -> dict[str, Any]:
    turns = [{"role": "user", "content": "hello"}]
    asked: dict[str, Any] = {
        "input" if path == "/v1/responses" else "messages": turns,
        "model": MODEL,
    }
    return (
        asked
        | ({"max_tokens": 8} if path == "/v1/messages" else {})
        | {"tools": [TOOL[path]]}
        | options
    )


@pytest.mark.parametrize("path", TOOL)
@pytest.mark.parametrize(
    "option",
    [
        {"context_management": {"edits": []}},
        {
            "context_management": {
                "edits": [{"type": "clear_thinking_20251015", "keep": {"type": "all"}}]
            }
        },
        {"defer_loading": False},
        {"defer_loading": True},
        {"service_tier": "auto"},
    ],
)
async def test_a_label_changes_no_prompt_in_any_dialect(
    gateway: Gateway, path: str, option: dict[str, Any]
) -> None:
    begun, body = await gateway.begin(), body_of(path)
    with_it = copy.deepcopy(body) | ({} if "defer_loading" in option else option)
    if "defer_loading" in option:
        with_it["tools"][0] |= option
    for each in (body, with_it):
        answer = await send(gateway, begun, path, each)
        assert answer.status_code == 200, answer.text
    assert prompt(gateway, 0) == prompt(gateway, 1)
    assert [bool(labels) for labels in labels_of(gateway, begun)] == [False, True]


@pytest.mark.parametrize(
    ("path", "option", "param", "switch"),
    [
        (
            "/v1/messages",
            {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
            "context_management",
            "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS=1",
        ),
        (
            "/v1/messages",
            {"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}},
            "context_management",
            "keep all",
        ),
        (
            "/v1/messages",
            {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            "tools.0",
            "--disallowedTools WebSearch",
        ),
        (
            "/v1/messages",
            {"tools": [{"type": "tool_search_tool_regex_20251119", "name": "x"}]},
            "tools.0",
            "ENABLE_TOOL_SEARCH=false",
        ),
        (
            "/v1/responses",
            {"tools": [{"type": "web_search"}]},
            "tools.0",
            'web_search = "disabled"',
        ),
        (
            "/v1/responses",
            {"tools": [{"type": "tool_search"}]},
            "tools.0",
            "In Codex",
        ),
        (
            "/v1/responses",
            {"tools": [TOOL["/v1/responses"], {"type": "image_generation"}]},
            "tools.1",
            "image_generation = false",
        ),
        (
            "/v1/responses",
            {
                "tools": [TOOL["/v1/responses"], {"type": "web_search"}],
                "tool_choice": {"type": "web_search"},
            },
            "tools.1",
            'web_search = "disabled"',
        ),
        ("/v1/chat/completions", {"tools": [{"type": "web_search"}]}, "tools.0", "function"),
    ],
)
async def test_what_would_change_the_answer_is_refused_with_the_clients_switch(
    gateway: Gateway, path: str, option: dict[str, Any], param: str, switch: str
) -> None:
    begun = await gateway.begin()
    refused = await send(gateway, begun, path, body_of(path, **option))
    error = refused.json()["error"]
    assert refused.status_code == 400 and switch in error["message"], error
    if path != "/v1/messages":
        assert (error["param"], error["code"]) == (bracketed(param), "unsupported_parameter")
    assert gateway.engine.requests == []


@pytest.mark.parametrize(
    ("path", "item", "said"),
    [
        ("/v1/responses", {"type": "web_search_call", "id": "ws_1"}, "'web_search_call' is none"),
        ("/v1/responses", {"type": "compaction"}, "'compaction' is none of 'message'"),
        (
            "/v1/responses",
            {"type": "reasoning", "summary": [], "encrypted_content": "gA"},
            "another server's",
        ),
        (
            "/v1/messages",
            {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]},
            "another server's",
        ),
    ],
)
async def test_history_of_another_server_is_refused_in_words(
    gateway: Gateway, path: str, item: dict[str, Any], said: str
) -> None:
    name = "input" if path == "/v1/responses" else "messages"
    turns = [{"role": "user", "content": "x"}, item, {"role": "user", "content": "y"}]
    refused = await send(gateway, await gateway.begin(), path, body_of(path, **{name: turns}))
    message = refused.json()["error"]["message"]
    assert refused.status_code == 400 and said in message and "_kind" not in message, message


async def test_a_namespace_is_functions_to_the_model_and_apart_in_calls(gateway: Gateway) -> None:
    tool = {
        "type": "function",
        "name": "spawn",
        "description": "Start one.",
        "parameters": {"type": "object"},
    }
    group = {"type": "namespace", "name": "agents", "description": "Of agents.", "tools": [tool]}
    same = tool | {"description": "Another."}  # the name alone is no clash
    begun = await gateway.begin()
    body = body_of("/v1/responses", tools=[group, same], max_output_tokens=256)
    for stream in (False, True):
        gateway.engine.say(
            '<tool_call>\n{"name": "agents__spawn", "arguments": {}}\n</tool_call>', "done"
        )
        answer = await send(gateway, begun, "/v1/responses", body | {"stream": stream})
        assert "Of agents.\\nStart one." in prompt(gateway)
        events = [
            json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")
        ]
        item = (events[-1]["response"] if stream else answer.json())["output"][0]
        assert item["type"] == "function_call"
        assert (item["name"], item["namespace"]) == ("spawn", "agents")
        if stream:
            begun_items = [
                each["item"] for each in events if each["type"] == "response.output_item.added"
            ]
            assert begun_items[0]["namespace"] == "agents"
        output = {"type": "function_call_output", "call_id": item["call_id"], "output": "ok"}
        after = await send(
            gateway, begun, "/v1/responses", body | {"input": [*body["input"], item, output]}
        )
        assert after.status_code == 200, after.text
        assert gateway.journal.calls.of_episode(begun["episode_id"])[-1].parent is not None
    clash = {"type": "function", "name": "agents__spawn"}
    refused = await send(gateway, begun, "/v1/responses", body | {"tools": [group, clash]})
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "tools[1].name"


@pytest.mark.parametrize("path", TOOL)
async def test_names_have_128_letters_and_tools_no_number(gateway: Gateway, path: str) -> None:
    def named(name: str) -> dict[str, Any]:
        tool = copy.deepcopy(TOOL[path])
        tool.get("function", tool)["name"] = name
        return tool

    begun = await gateway.begin()
    many = [named(f"tool_{number}") for number in range(130)]
    answer = await send(gateway, begun, path, body_of(path, tools=[named("a" * 128)]))
    assert answer.status_code == 200, answer.text
    for tools, said in (
        (many, "context length"),
        ([named("a" * 129)], "128"),
        ([named("")], "name"),
    ):
        refused = await send(gateway, begun, path, body_of(path, tools=tools))
        words = refused.json()["error"]["message"]
        assert refused.status_code == 400 and (said in words or "prompt is too long" in words), (
            words
        )


def in_dialects(messages: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The same conversation in every dialect."""
    return {
        "/v1/chat/completions": {"messages": messages},
        "/v1/responses": {"input": messages},
        "/v1/messages": {"messages": messages, "max_tokens": 8},
    }


LATER = [
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": "Hi."},
    {"role": "system", "content": "Answer only BLUE."},
    {"role": "user", "content": "colour?"},
]
WRAPPED = "<system>\nAnswer only BLUE.\n</system>"
LATER_FORMS = {
    "qwen2_5": "<|im_start|>system\nAnswer only BLUE.<|im_end|>",
    "qwen3": "<|im_start|>system\nAnswer only BLUE.<|im_end|>",
    "qwen3_6": f"<|im_start|>user\n{WRAPPED}<|im_end|>",
    "gptoss": f"<|start|>user<|message|>{WRAPPED}<|end|>",
    "gemma3": f"<start_of_turn>user\n{WRAPPED}\n\ncolour?<end_of_turn>",
    "mistral": f"[INST] {WRAPPED}[/INST]",
    "deepseek_r1_distill": WRAPPED,
}


@pytest.mark.parametrize("family", LATER_FORMS)
async def test_a_later_system_message_is_written_one_way_in_every_dialect(
    tmp_path: Path, family: str
) -> None:
    async with running_gateway(tmp_path, family=family) as gateway:
        begun = await gateway.begin()
        for path, body in in_dialects(LATER).items():
            answer = await send(gateway, begun, path, {"model": MODEL} | body)
            assert answer.status_code == 200, answer.text
        assert len({prompt(gateway, number) for number in range(3)}) == 1
        assert LATER_FORMS[family] in prompt(gateway)
        assert all(
            labels["later system messages"]["messages"] == [2]
            for labels in labels_of(gateway, begun)
        )


@pytest.mark.parametrize("family", ["qwen2_5", "qwen3_6", "gemma3"])
async def test_several_at_the_start_are_one_in_every_dialect(tmp_path: Path, family: str) -> None:
    user = {"role": "user", "content": "hello"}
    two = [{"role": "developer", "content": "One."}, {"role": "system", "content": "Two."}]
    async with running_gateway(tmp_path, family=family) as gateway:
        begun = await gateway.begin()
        bodies: list[tuple[str, dict[str, Any]]] = [
            (
                "/v1/chat/completions",
                {"messages": [{"role": "system", "content": "One.\n\nTwo."}, user]},
            ),
            ("/v1/chat/completions", {"messages": [*two, user]}),
            ("/v1/responses", {"input": [*two, user]}),
            ("/v1/responses", {"instructions": "One.", "input": [two[1], user]}),
            ("/v1/messages", {"system": "One.", "messages": [two[1], user], "max_tokens": 8}),
        ]
        for path, body in bodies:
            answer = await send(gateway, begun, path, {"model": MODEL} | body)
            assert answer.status_code == 200, answer.text
        assert len({prompt(gateway, number) for number in range(len(bodies))}) == 1
        merged = [each.get("system messages merged") for each in labels_of(gateway, begun)]
        assert merged == [None, 2, 2, 2, 2]
        goes_on = {"previous_response_id": json.loads(answer.text)["id"], "input": "more"}
        assert (
            await send(gateway, begun, "/v1/responses", {"model": MODEL} | goes_on)
        ).status_code == 400


@pytest.mark.parametrize("name", ["x-anthropic-billing-header", "X-Other-Session"])
async def test_an_accounting_line_that_changes_keeps_the_conversation(
    gateway: Gateway, name: str
) -> None:
    def body(count: int, turns: list[dict[str, Any]]) -> dict[str, Any]:
        line = f"{name}: cc_version=2.1; cch={count};"
        system = [{"type": "text", "text": line}, {"type": "text", "text": "You help."}]
        return {"model": MODEL, "max_tokens": 8, "system": system, "messages": turns}

    gateway.engine.say("one", "two", "three")
    begun, turns = await gateway.begin(), [{"role": "user", "content": "hello"}]
    for count in range(3):
        answer = (await send(gateway, begun, "/v1/messages", body(count, turns))).json()
        turns = [
            *turns,
            {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": "on"},
        ]
    calls = gateway.journal.calls.of_episode(begun["episode_id"])
    assert timelines_of(calls) == [[0, 1, 2]] and "cch=0;" in prompt(gateway)
    lines = [labels["accounting line"] for labels in labels_of(gateway, begun)]
    assert [line[-6:] for line in lines] == ["cch=0;", "cch=1;", "cch=2;"]


@pytest.mark.parametrize("family", ["qwen2_5", "qwen3_6"])
async def test_arguments_that_are_none_are_one_prompt_in_every_dialect(
    tmp_path: Path, family: str
) -> None:
    user = {"role": "user", "content": "look"}
    missing = object()
    async with running_gateway(tmp_path, family=family, **ROOM) as gateway:
        begun = await gateway.begin()
        for path in TOOL:
            for value in ("", "{}", None, "null", {}, missing):
                given = (
                    {}
                    if value is missing
                    else {("input" if path == "/v1/messages" else "arguments"): value}
                )
                if path == "/v1/chat/completions":
                    call = {
                        "role": "assistant",
                        "tool_calls": [
                            {
                                "id": "call_1",
                                "type": "function",
                                "function": {"name": "look"} | given,
                            }
                        ],
                    }
                    turns = {
                        "messages": [
                            user,
                            call,
                            {"role": "tool", "tool_call_id": "call_1", "content": "ok"},
                        ]
                    }
                elif path == "/v1/responses":
                    call = {"type": "function_call", "call_id": "call_1", "name": "look"} | given
                    turns = {
                        "input": [
                            user,
                            call,
                            {"type": "function_call_output", "call_id": "call_1", "output": "ok"},
                        ]
                    }
                else:
                    call = {
                        "role": "assistant",
                        "content": [{"type": "tool_use", "id": "call_1", "name": "look"} | given],
                    }
                    result = {"type": "tool_result", "tool_use_id": "call_1", "content": "ok"}
                    turns = {
                        "messages": [user, call, {"role": "user", "content": [result]}],
                        "max_tokens": 8,
                    }
                answer = await send(gateway, begun, path, body_of(path) | turns)
                assert answer.status_code == 200, (path, value, answer.text)
        assert len({prompt(gateway, number) for number in range(len(gateway.engine.requests))}) == 1


async def test_a_reference_to_a_tool_is_a_sentence(gateway: Gateway) -> None:
    call = {"type": "tool_use", "id": "call_1", "name": "look", "input": {}}
    found = {
        "type": "tool_result",
        "tool_use_id": "call_1",
        "content": [{"type": "tool_reference", "tool_name": "Web"}],
    }
    turns = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [found]},
    ]
    answer = await send(
        gateway, await gateway.begin(), "/v1/messages", body_of("/v1/messages", messages=turns)
    )
    assert answer.status_code == 200 and "The tool Web is loaded." in prompt(gateway)


async def test_what_the_agents_ask_for_beside_calls_is_answered(gateway: Gateway) -> None:
    begun = await gateway.begin()
    key = {"Authorization": f"Bearer {begun['api_key']}"}
    assert (await gateway.http.head("/")).status_code == 200
    upgrade = key | {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "eA==",
    }
    for path in ("/v1/responses", "/v1/realtime", "/v1/messages", "/v1/models"):
        refused = await gateway.http.get(path, headers=upgrade)
        assert refused.status_code == 426 and "over HTTP" in refused.json()["error"]["message"]
    ours = (
        await gateway.http.get(
            "/v1/models?limit=1000", headers=key | {"anthropic-version": "2023-06-01"}
        )
    ).json()
    assert (
        ours["data"][0]["type"] == "model"
        and ours["has_more"] is False
        and ours["first_id"] == MODEL
    )
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
    counted = await send(gateway, begun, "/v1/messages/count_tokens?beta=true", body)
    assert counted.json()["input_tokens"] > 0


@pytest.mark.parametrize("length", [600, 6000])
async def test_a_prompt_that_is_too_long_names_the_length_to_set(
    gateway: Gateway, length: int
) -> None:
    body = body_of("/v1/messages", messages=[{"role": "user", "content": "q9 " * length}])
    begun = await gateway.begin()
    said = (await send(gateway, begun, "/v1/messages", body)).json()["error"]["message"]
    assert (
        said.startswith("prompt is too long: ")
        and " tokens > 512 maximum" in said
        and "max_context_length" in said
    )
    chat = body_of("/v1/chat/completions", messages=body["messages"])
    error = (await send(gateway, begun, "/v1/chat/completions", chat)).json()["error"]
    assert error["code"] == "context_length_exceeded" and "need " in error["message"]
