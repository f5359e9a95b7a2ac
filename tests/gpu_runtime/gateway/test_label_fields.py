"""Fields that clients of today can send: those that change no answer are labels, and the refusal of
any other names it with what to send instead.

Sources: the types of requests in the packages `anthropic` and `openai`, and the requests that
Claude Code 2.1.332 and Codex 0.171.0 compose.
"""

from typing import Any

import pytest

from support.gateway_harness import MODEL, Gateway

HELLO = [{"role": "user", "content": "hello"}]
LATER = {"role": "system", "content": "Be brief."}
HARD = {"output_config": {"effort": "max"}}
CODE = {"allowed_callers": ["code_execution_20260120"]}
CACHE = {"mode": "explicit"}
TOOL = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
DIRECT = {"type": "direct"}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "caller": DIRECT}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "x", "caller": DIRECT}
BEFORE = {"role": "assistant"}
USE: dict[str, Any] = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
FOUND = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
OF_SET = {"toolset_name": "browser"}
CITED: dict[str, Any] = {
    "role": "assistant",
    "content": [{"type": "text", "text": "hi", "citations": [{"type": "char_location"}]}],
}
PART = {"type": "text", "text": "hello", "prompt_cache_breakpoint": CACHE}
MESSAGES, RESPONSES, CHAT = "/v1/messages", "/v1/responses", "/v1/chat/completions"
BODIES: dict[str, dict[str, Any]] = {
    MESSAGES: {"messages": HELLO, "max_tokens": 16},
    RESPONSES: {"input": HELLO},
    CHAT: {"messages": HELLO},
}
# of ChatCompletionRequest of vLLM 0.32, beside those that act
VLLM_DEFAULTS = {
    "include_reasoning": True,
    "use_beam_search": False,
    "length_penalty": 1.0,
    "include_stop_str_in_output": False,
    "skip_special_tokens": True,
    "spaces_between_special_tokens": True,
    "echo": False,
    "add_generation_prompt": True,
    "continue_final_message": False,
    "add_special_tokens": False,
    "priority": 0,
    "request_id": "bea7bb9d",
    "routed_experts_prompt_start": 0,
    "return_token_offsets": False,
    "mm_payload": "tensors",
}
LABELS: list[tuple[str, dict[str, Any]]] = [
    (MESSAGES, {"billing_policy": {"type": "billing_policy", "bill_to": "self"}}),
    (MESSAGES, {"diagnostics": {"previous_message_id": None}}),
    (MESSAGES, {"safeguards": [{"type": "dangerous_tool_use", "classifier_context": {}}]}),
    (MESSAGES, {"tags": {"team": "a"}}),
    (MESSAGES, {"program_use_case_id": "x"}),
    (MESSAGES, {"fallback_credit_token": "x"}),
    (MESSAGES, {"fallbacks": "default"}),
    (MESSAGES, {"fallbacks": [{"model": "other"}]}),
    (MESSAGES, {"output_config": {"task_budget": {"type": "tokens", "total": 20000}}}),
    (MESSAGES, {"thinking": {"type": "adaptive", "block_binding": {}, "display": "updates"}}),
    (MESSAGES, {"messages": [*HELLO, LATER | {"clear_at": "never"}]}),
    (MESSAGES, {"messages": [*HELLO, LATER | {"output_config": {}}]}),
    (MESSAGES, {"tools": [TOOL | {"allowed_callers": ["direct", "code_execution_20260120"]}]}),
    (MESSAGES, {"tools": [TOOL, {"type": "web_search_20260318", "name": "web_search"}]}),
    (MESSAGES, {"user_profile_id": "u", "workspace_id": "w", "container": "c"}),
    (MESSAGES, {"messages": [*HELLO, CITED, *HELLO], "system": [CITED["content"][0]]}),
    (MESSAGES, {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
    (
        MESSAGES,
        {
            "messages": [
                *HELLO,
                BEFORE | {"content": [USE | OF_SET]},
                {"role": "user", "content": [FOUND | OF_SET]},
            ]
        },
    ),
    (RESPONSES, {"service_tier": "ultrafast"}),
    (RESPONSES, {"tools": [FUNCTION | {"output_schema": {"type": "object"}}]}),
    (RESPONSES, {"access_programs": {"cyber": "standard"}}),
    (RESPONSES, {"request_country": "NL"}),
    (RESPONSES, {"background_options": {"completion_window": "soonest"}}),
    (RESPONSES, {"image": {"context_compression": "auto"}}),
    (RESPONSES, {"prompt_cache_options": CACHE}),
    (RESPONSES, {"prompt_cache_retention": "in-memory"}),
    (RESPONSES, {"reasoning": {"context": "auto", "mode": "standard"}}),
    (RESPONSES, {"stream": True, "stream_options": {"include_obfuscation": True}}),
    (RESPONSES, {"stream": True, "stream_options": {"reasoning_summary_delivery": "x"}}),
    (RESPONSES, {"tools": [FUNCTION | {"async": False, "allowed_callers": ["direct"]}]}),
    (RESPONSES, {"tools": [FUNCTION], "input": [*HELLO, CALL, RESULT]}),
    (RESPONSES, {"input": [{"role": "user", "content": [PART | {"type": "input_text"}]}]}),
    (CHAT, {"prompt_cache_options": CACHE}),
    (CHAT, {"usage": {"include": True}, "provider": {"sort": "price"}, "transforms": []}),
    (CHAT, {"cache_prompt": True}),
    (CHAT, {"messages": [{"role": "user", "content": [PART]}]}),
    (CHAT, {"stream": True, "stream_options": {"include_obfuscation": True}}),
    (CHAT, {"stream": True, "stream_options": {"continuous_usage_stats": False}}),
    *((CHAT, {name: value}) for name, value in VLLM_DEFAULTS.items()),
]
REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    (MESSAGES, {"output_format": {"type": "json_schema"}}, "output_format", "output_config.format"),
    (MESSAGES, {"messages": [*HELLO, LATER | {"clear_at": "next_user_message"}]}, "messages.1.clear_at", "BETAS=1"),
    (MESSAGES, {"messages": [*HELLO, LATER | HARD]}, "messages.1.output_config", "BETAS=1"),
    (MESSAGES, {"tools": [TOOL | CODE]}, "tools.0.allowed_callers", "Add direct"),
    (RESPONSES, {"prompt_cache_options": {"prewarm": True}}, "prompt_cache_options", "prewarm"),
    (RESPONSES, {"reasoning": {"context": "all_turns"}}, "reasoning.context", "send auto"),
    (RESPONSES, {"context_management": [{"type": "compaction"}]}, "context_management", "a shorter one"),
    (RESPONSES, {"tools": [FUNCTION | {"async": True}]}, "tools[0].async", "Leave"),
    (RESPONSES, {"stream": True, "stream_options": {"other": 1}}, "stream_options", "Leave"),
    (MESSAGES, {"container": {"skills": [{"skill_id": "pdf"}]}}, "container", "skills"),
    (MESSAGES, {"compaction": {}}, "compaction", "a shorter one"),
    (RESPONSES, {"tools": [FUNCTION | {"allowed_callers": ["programmatic"]}]}, "tools[0].allowed_callers", "direct"),
    (RESPONSES, {"background": True}, "background", "a call ends with its answer"),
    (RESPONSES, {"conversation": "c"}, "conversation", "previous_response_id"),
    (RESPONSES, {"prompt": {"id": "p"}}, "prompt", "instructions"),
    (RESPONSES, {"moderation": {"model": "m"}}, "moderation", "Nothing is moderated"),
    (CHAT, {"moderation": {"model": "m"}}, "moderation", "Nothing is moderated"),
    (CHAT, {"audio": {"voice": "a", "format": "wav"}}, "audio", "no voice"),
    (CHAT, {"messages": [*HELLO, BEFORE | {"function_call": {}}]}, "messages[1].function_call", "tool_calls"),
    (CHAT, {"messages": [*HELLO, BEFORE | {"audio": {"id": "a"}}]}, "messages[1].audio", "hearing"),
    (CHAT, {"functions": [{"name": "f"}]}, "functions", "tools"),
    (CHAT, {"function_call": "none"}, "function_call", "tool_choice"),
    (CHAT, {"reasoning": {"effort": "high"}}, "reasoning", "as reasoning_effort"),
    (CHAT, {"enable_thinking": False}, "enable_thinking", "chat_template_kwargs"),
    (CHAT, {"web_search_options": {}}, "web_search_options", "a function that searches"),
    (CHAT, {"transforms": ["middle-out"]}, "transforms", "Leave"),
    (CHAT, {"continue_final_message": True}, "continue_final_message", "Leave"),
    (CHAT, {"add_generation_prompt": False}, "add_generation_prompt", "Leave"),
    (CHAT, {"add_special_tokens": True}, "add_special_tokens", "Leave"),
]  # fmt: skip


async def post(gateway: Gateway, key: str, path: str, body: dict[str, Any]) -> Any:
    asked = {"model": MODEL} | BODIES[path] | body
    return await gateway.http.post(path, json=asked, headers={"X-Api-Key": key})


async def test_fields_that_change_no_answer_are_labels(gateway: Gateway) -> None:
    begun = await gateway.begin()
    for path, body in LABELS:
        taken = await post(gateway, begun["api_key"], path, body)
        assert taken.status_code == 200, (body, taken.text)
        call = gateway.journal.calls.of_episode(begun["episode_id"])[-1]
        assert call.options["labels"], body


async def test_what_other_servers_add_to_an_answer_and_its_results_is_no_part_of_the_prompt(
    gateway: Gateway,
) -> None:
    key = (await gateway.begin())["api_key"]
    note = {"type": "url_citation", "url": "https://example.org"}
    said = {"type": "output_text", "text": "hi", "annotations": [note]}
    found = {"type": "tool_search_output", "call_id": "s", "execution": "client"}
    search = {"type": "tool_search_call", "call_id": "s", "arguments": {}}
    history: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        (CHAT, {"messages": [*HELLO, {"role": "assistant", "content": "hi"}, *HELLO]}, {"annotations": [note]}),
        (RESPONSES, {"input": [*HELLO, CALL, RESULT]}, {"name": "f", "namespace": "n"}),
        (RESPONSES, {"input": [*HELLO, search, found | {"tools": [FUNCTION]}]}, {}),
    ]  # fmt: skip
    for path, body, more in history:
        name = "messages" if "messages" in body else "input"
        changed = [*body[name][:-2], body[name][-2], body[name][-1]]
        place = -2 if path == CHAT else -1
        changed[place] = changed[place] | more
        if not more:
            tool = FUNCTION | {"output_schema": {}, "async": False, "allowed_callers": ["direct"]}
            changed[-1] = changed[-1] | {"tools": [tool]}
        for sent in (body, {name: changed}):
            taken = await post(gateway, key, path, sent)
            assert taken.status_code == 200, taken.text
        first, second = gateway.engine.requests[-2:]
        assert first.prompt_ids == second.prompt_ids
    echo = {"role": "assistant", "content": [said]}
    assert (
        await post(gateway, key, RESPONSES, {"input": [*HELLO, echo, *HELLO]})
    ).status_code == 200


async def test_thoughts_that_another_server_hid_are_refused_with_what_to_do(
    gateway: Gateway,
) -> None:
    key = (await gateway.begin())["api_key"]
    hidden = {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}
    refused = await post(gateway, key, MESSAGES, {"messages": [*HELLO, hidden, *HELLO]})
    assert refused.status_code == 400 and "leave the block out" in refused.text


async def test_who_runs_a_tool_is_the_client_or_the_server(gateway: Gateway) -> None:
    key = (await gateway.begin())["api_key"]
    for runs, status in (("client", 200), ("server", 200), ("edge", 400)):
        tools = [FUNCTION, {"type": "tool_search", "execution": runs}]
        answer = await post(gateway, key, RESPONSES, {"tools": tools})
        assert answer.status_code == status, answer.text
    assert answer.json()["error"]["param"] == "tools[1].execution"


async def test_a_user_id_that_is_null_is_none(gateway: Gateway) -> None:
    key = (await gateway.begin())["api_key"]
    taken = await post(gateway, key, MESSAGES, {"metadata": {"user_id": None}})
    assert taken.status_code == 200, taken.text


@pytest.mark.parametrize(("path", "body", "field", "instead"), REFUSED)
async def test_what_changes_an_answer_is_refused_with_what_to_send(
    gateway: Gateway, path: str, body: dict[str, Any], field: str, instead: str
) -> None:
    refused = await post(gateway, (await gateway.begin())["api_key"], path, body)
    assert refused.status_code == 400, refused.text
    said = refused.json()["error"]["message"]
    assert said.startswith(f"the option {field} is not supported") and instead in said, said
    assert gateway.engine.requests == []
