"""Options of sampling under vLLM's names: each reaches the engine from every dialect; a training
episode takes those that it can carry exactly and refuses the others by name.
"""

import json
from typing import Any

import pytest

from gpu_runtime.journal.timelines import agents_of
from support.gateway_harness import MODEL, Gateway

CHANGES_THE_DISTRIBUTION = {
    "top_k": 5,
    "min_p": 0.1,
    "frequency_penalty": 0.5,
    "presence_penalty": -0.5,
    "repetition_penalty": 1.2,
    "logit_bias": {"5": 1.5},
}
ONLY_ENDS = {"stop_token_ids": [77], "ignore_eos": True}
NEUTRAL = {
    "top_k": -1,
    "min_p": 0,
    "frequency_penalty": 0,
    "presence_penalty": 0.0,
    "repetition_penalty": 1,
    "logit_bias": {"5": 0},
    "min_tokens": 0,
    "stop_token_ids": [],
    "ignore_eos": False,
    "skip_special_tokens": True,
}
DIALECTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}]},
    "/v1/completions": {"prompt": "hello"},
    "/v1/responses": {"input": "hello"},
    "/v1/messages": {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 8},
}


async def send(gateway: Gateway, begun: dict[str, Any], path: str, **options: Any) -> Any:
    headers = {"Authorization": f"Bearer {begun['api_key']}"}
    return await gateway.http.post(
        path, json={"model": MODEL} | DIALECTS[path] | options, headers=headers
    )


@pytest.mark.parametrize("path", DIALECTS)
async def test_every_option_reaches_the_engine_in_an_eval_episode_of_every_dialect(
    gateway: Gateway, path: str
) -> None:
    begun = await gateway.begin(eval=True)
    every = CHANGES_THE_DISTRIBUTION | ONLY_ENDS | {"min_tokens": 3}
    answer = await send(gateway, begun, path, **every)
    assert answer.status_code == 200, answer.text
    (seen,) = gateway.engine.requests
    expected = every | {"logit_bias": {5: 1.5}, "stop_token_ids": (77,)}
    assert {name: getattr(seen.options, name) for name in every} == expected
    (call,) = gateway.journal.calls.of_episode(begun["episode_id"])
    kept = call.options["sampling"]
    assert {name: kept[name] for name in CHANGES_THE_DISTRIBUTION} == CHANGES_THE_DISTRIBUTION


@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize("name", CHANGES_THE_DISTRIBUTION)
async def test_what_the_trainer_cannot_compute_is_refused_by_name_in_the_clients_dialect(
    gateway: Gateway, path: str, name: str
) -> None:
    begun = await gateway.begin()
    refused = await send(gateway, begun, path, **{name: CHANGES_THE_DISTRIBUTION[name]})
    assert refused.status_code == 400, refused.text
    error = refused.json()["error"]
    assert name in error["message"] and "eval=True" in error["message"]
    assert (refused.json().get("type") == "error") == (path == "/v1/messages"), (
        "the client's own dialect"
    )
    assert gateway.engine.requests == [], "nothing was sampled"
    assert (await send(gateway, begun, path)).status_code == 200


@pytest.mark.parametrize("path", DIALECTS)
async def test_values_that_change_nothing_are_accepted_in_training(
    gateway: Gateway, path: str
) -> None:
    answer = await send(gateway, await gateway.begin(), path, **NEUTRAL)
    assert answer.status_code == 200, answer.text
    options = gateway.engine.requests[0].options
    assert (options.top_k, options.logit_bias, options.repetition_penalty, options.min_tokens) == (
        0,
        {},
        1.0,
        0,
    )


async def test_what_only_ends_an_answer_is_trained_and_what_forbids_tokens_is_marked(
    gateway: Gateway,
) -> None:
    begun = await gateway.begin()
    for content, options in (
        ("a", {"ignore_eos": True}),
        ("b", {"stop_token_ids": [77]}),
        ("c", {"min_tokens": 2}),
    ):
        answer = await gateway.raw_chat(
            begun["api_key"], messages=[{"role": "user", "content": content}], **options
        )
        assert answer.status_code == 200, answer.text
    calls = gateway.journal.calls.of_episode(begun["episode_id"])
    assert [bool(segment.allowed) for segment in agents_of(calls)[None]] == [False, False, True]


async def test_a_stop_token_ends_the_answer_and_its_text_and_is_named(gateway: Gateway) -> None:
    begun = await gateway.begin()
    fox = gateway.engine.encode("the quick fox")
    gateway.engine.say(fox + [gateway.engine.end_id])
    body = (await gateway.raw_chat(begun["api_key"], stop_token_ids=[fox[-1]])).json()
    (choice,) = body["choices"]
    assert (
        choice["token_ids"] == fox
        and choice["stop_reason"] == fox[-1]
        and choice["finish_reason"] == "stop"
    )
    assert choice["message"]["content"] == gateway.engine.tokenizer.decode(fox[:-1])
    # What goes on after it goes on after the text that the client got.
    gateway.engine.say("yes")
    messages = [
        {"role": "user", "content": "hello"},
        choice["message"],
        {"role": "user", "content": "more"},
    ]
    await gateway.raw_chat(begun["api_key"], messages=messages)
    first, second = gateway.engine.requests
    seen = (*first.prompt_ids, *fox[:-1])
    assert second.prompt_ids[: len(seen)] == seen and second.prompt_ids[len(seen)] != fox[-1]
    drift = gateway.journal.calls.of_episode(begun["episode_id"])[1].drift
    assert (drift["cause"], drift["message"]) == ("client", 1), (
        "what was sampled is no part of what goes on"
    )


async def test_an_answer_goes_on_past_an_end_of_turn_that_is_ignored(gateway: Gateway) -> None:
    gateway.engine.say("fox")
    body = (await gateway.raw_chat((await gateway.begin())["api_key"], ignore_eos=True)).json()
    assert body["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize(
    ("structure", "kind"),
    [
        ({"choice": ["yes", "no"]}, "or"),
        ({"choice": ["yes"]}, "const_string"),
        ({"regex": "[0-9]+"}, "regex"),
        ({"grammar": 'root ::= "a"'}, "grammar"),
        ({"json": {"type": "object"}}, None),
        ({"json": '{"type": "object"}'}, None),
        ({"json_object": True}, None),
    ],
)
async def test_structured_outputs_bind_the_answer_in_training_too(
    gateway: Gateway, path, structure, kind
) -> None:
    begun = await gateway.begin()
    gateway.engine.say("{}")
    answer = await send(gateway, begun, path, structured_outputs=structure)
    assert answer.status_code == 200, answer.text
    options = gateway.engine.requests[0].options
    if kind is None:
        assert json.loads(options.json_schema) == (
            {} if "json_object" in structure else {"type": "object"}
        )
    else:
        assert json.loads(options.structural_tag)["format"]["type"] == kind
    (call,) = gateway.journal.calls.of_episode(begun["episode_id"])
    assert call.is_narrowed


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"top_k": -2}, "top_k"),
        ({"min_p": 1.5}, "min_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"999999": 1}}, "logit_bias"),
        ({"stop_token_ids": [999999]}, "stop_token_ids"),
        ({"stop_token_ids": [-1]}, "stop_token_ids"),
        ({"min_tokens": 9, "max_tokens": 8}, "min_tokens"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"choice": ["a"], "regex": "b"}}, "structured_outputs"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_what_has_no_meaning_is_refused_by_name(
    gateway: Gateway, path: str, options, named: str
) -> None:
    refused = await send(gateway, await gateway.begin(eval=True), path, **options)
    assert refused.status_code == 400 and named in refused.json()["error"]["message"], refused.text
    assert gateway.engine.requests == []


async def test_a_grammar_beside_tools_or_another_format_is_refused(gateway: Gateway) -> None:
    key = (await gateway.begin())["api_key"]
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    structure = {"structured_outputs": {"choice": ["a", "b"]}}
    refused = await gateway.raw_chat(key, tools=[tool], **structure)
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "structured_outputs"
    refused = await gateway.raw_chat(key, response_format={"type": "json_object"}, **structure)
    assert refused.status_code == 400 and "one of them" in refused.json()["error"]["message"]
    assert (
        await gateway.raw_chat(key, tools=[tool], tool_choice="none", **structure)
    ).status_code == 200


async def test_an_answer_is_as_long_as_its_least_tokens_even_if_the_session_says_less(
    gateway: Gateway,
) -> None:
    answer = await gateway.raw_chat((await gateway.begin())["api_key"], min_tokens=50)
    assert answer.status_code == 200, answer.text
    assert gateway.engine.requests[0].options.max_tokens == 50, "the session says 32"
