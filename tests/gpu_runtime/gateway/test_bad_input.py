"""What bad input gets on every path: a refusal in the dialect's own words, the right status; the
episode lives on.
"""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runtime.errors import RequestRefused
from gpu_runtime.rendering.renderer import Renderer
from support.dialect_forms import error_form, error_in, form_of
from support.gateway_harness import MODEL, SESSION, Gateway, running_gateway
from support.generated import any_speed
from support.light_tokenizer import LightTokenizer
from support.tiny_tokenizers import build_tokenizer
from support.waiting import FakeClock
from tinkerscript.wire import episode_key
from tinkerscript.wire.dialects.table import DIALECTS

HELLO = [{"role": "user", "content": "hello"}]
BODIES = {
    "/v1/chat/completions": {"model": MODEL, "messages": HELLO},
    "/v1/completions": {"model": MODEL, "prompt": "hello"},
    "/v1/responses": {"model": MODEL, "input": "hello"},
    "/v1/responses/input_tokens": {"model": MODEL, "input": "hello"},
    "/v1/messages": {"model": MODEL, "messages": HELLO, "max_tokens": 8},
    "/v1/messages/count_tokens": {"model": MODEL, "messages": HELLO},
}
OF_TOKENS = {"/v1/tokenize", "/v1/detokenize"}  # test_loglikelihood.py has what they refuse
every_path = pytest.mark.parametrize("path", BODIES)
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
INPUT_IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
SOURCE = {"type": "base64", "media_type": "image/png", "data": "AAAA"}


async def post(gateway: Gateway, path: str, key: str, body: Any) -> tuple[int, dict[str, Any]]:
    """(status, error) of a raw body, or of a value as JSON, checked for the dialect's form of an
    error.
    """
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {key}"}
    answer = await asyncio.wait_for(
        gateway.http.post(path, content=content, headers=headers, timeout=120), 120
    )
    if answer.status_code < 400:
        return answer.status_code, answer.json()
    found = answer.json()
    assert form_of(found) == error_form(path)
    error = error_in(found)
    assert error["message"]
    return answer.status_code, error


async def refused(gateway: Gateway, path: str, body: Any, status: int = 400) -> dict[str, Any]:
    """The error that ``body`` gets; afterwards the same episode is served as if nothing had
    been.
    """
    begun, sampled = await gateway.begin(eval=True), len(gateway.engine.requests)
    found, error = await post(gateway, path, begun["api_key"], body)
    assert found == status, (body if len(str(body)) < 500 else "...", error)
    assert len(gateway.engine.requests) == sampled, "it does not reach the engine"
    assert (await post(gateway, path, begun["api_key"], BODIES[path]))[0] == 200
    assert gateway.faults == []
    return error


def test_the_paths_here_are_those_of_every_dialect() -> None:
    assert set(BODIES) | OF_TOKENS == {path for row in DIALECTS for path in row.paths}


@every_path
async def test_malformed_json(gateway: Gateway, path: str) -> None:
    for body in (
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"null",
        b"[" * 100_000,
        b'{"model": NaN}',
        b'{"a": 1}}',
    ):
        await refused(gateway, path, body)


@every_path
async def test_invalid_utf8_and_half_a_surrogate_pair(gateway: Gateway, path: str) -> None:
    for text in (b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\\ud800"):
        body = json.dumps(BODIES[path]).encode().replace(b"hello", text)
        assert "UTF-8" in (await refused(gateway, path, body))["message"]


@every_path
async def test_wrong_types(gateway: Gateway, path: str) -> None:
    for name in BODIES[path]:
        for value in (None, 7.5, {"a": []}, [7, None], [[]], True):
            error = await refused(gateway, path, BODIES[path] | {name: value})
            assert name in error["message"], value


async def test_unknown_roles(gateway: Gateway) -> None:
    for role in ("wizard", "", None, 7, "function"):
        turn = [{"role": role, "content": "x"}]
        for path in ("/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"):
            place = "messages[0]" if path == "/v1/chat/completions" else "messages.0"
            assert (
                place
                in (await refused(gateway, path, BODIES[path] | {"messages": turn}))["message"]
            )
        for path in ("/v1/responses", "/v1/responses/input_tokens"):
            body = BODIES[path] | {"input": turn}
            assert "input" in (await refused(gateway, path, body))["message"]


@pytest.mark.parametrize(
    ("path", "name", "part"),
    [
        ("/v1/chat/completions", "messages", IMAGE),
        ("/v1/responses", "input", INPUT_IMAGE),
        ("/v1/responses/input_tokens", "input", INPUT_IMAGE),
        ("/v1/messages", "messages", {"type": "image", "source": SOURCE}),
        ("/v1/messages/count_tokens", "messages", {"type": "image", "source": SOURCE}),
    ],
)
async def test_an_image_for_a_text_model(
    gateway: Gateway, path: str, name: str, part: dict[str, Any]
) -> None:
    error = await refused(
        gateway, path, BODIES[path] | {name: [{"role": "user", "content": [part]}]}
    )
    place = f"{name}.0.content" if path.startswith("/v1/messages") else f"{name}[0].content"
    assert place in error["message"]


@pytest.mark.parametrize(
    ("path", "tool"),
    [
        ("/v1/chat/completions", {"type": "function", "function": {"name": "now"}}),
        ("/v1/responses", {"type": "function", "name": "now"}),
    ],
)
async def test_a_tool_without_parameters_takes_none(
    gateway: Gateway, path: str, tool: dict[str, Any]
) -> None:
    begun = await gateway.begin()
    assert (await post(gateway, path, begun["api_key"], BODIES[path] | {"tools": [tool]}))[0] == 200
    prompt = gateway.renderer.decode(gateway.engine.requests[-1].prompt_ids, special=True)
    assert '"parameters": {"type": "object", "properties": {}}' in prompt


@pytest.mark.parametrize(
    ("path", "part", "instead"),
    [
        ("/v1/messages", {"type": "search_result", "source": "u", "content": []}, "as text"),
        ("/v1/messages", {"type": "server_tool_use", "id": "s", "name": "web_search"}, "as text"),
        ("/v1/messages", {"type": "compaction", "content": "x"}, "its summary as text"),
        ("/v1/responses", {"type": "computer_screenshot"}, "as text"),
        ("/v1/chat/completions", {"type": "thinking", "thinking": "x"}, "as text"),
    ],
)
async def test_a_part_that_is_no_text_is_refused_with_what_to_send(
    gateway: Gateway, path: str, part: dict[str, Any], instead: str
) -> None:
    name = "input" if path == "/v1/responses" else "messages"
    turn = {"role": "user", "content": [part]}
    error = await refused(gateway, path, BODIES[path] | {name: [turn]})
    place = f"{name}.0.content.0.type" if path == "/v1/messages" else f"{name}[0].content[0].type"
    assert error["message"].startswith(place) and instead in error["message"]


@pytest.mark.parametrize(
    ("kind", "instead"),
    [
        ("additional_tools", "among tools"),
        ("compaction", "its summary as text"),
        ("compaction_trigger", "its summary as text"),
        ("mcp_call", "leave it out"),
        ("shell_call", "leave it out"),
        ("web_search_call", "leave it out"),
    ],
)
async def test_an_item_of_a_kind_that_is_not_read_is_refused_with_what_to_send(
    gateway: Gateway, kind: str, instead: str
) -> None:
    body = BODIES["/v1/responses"] | {"input": [{"type": kind}, *HELLO]}
    error = await refused(gateway, "/v1/responses", body)
    assert (error["param"], instead in error["message"]) == ("input[0].type", True), error


async def test_tools_that_a_message_adds_or_takes_away_are_refused(gateway: Gateway) -> None:
    for kind, instead in (("tool_addition", "among tools"), ("tool_removal", "out of tools")):
        change = {"role": "system", "content": [{"type": kind, "tool": {}}]}
        body = BODIES["/v1/messages"] | {"messages": [*HELLO, change]}
        error = await refused(gateway, "/v1/messages", body)
        assert "messages.1.content.0.type" in error["message"] and instead in error["message"]


@pytest.mark.parametrize(
    ("path", "tool"),
    [
        ("/v1/chat/completions", {"type": "function", "function": {"name": "now"}}),
        ("/v1/responses", {"type": "function", "name": "now"}),
        ("/v1/messages", {"name": "now", "input_schema": {}}),
        ("/v1/messages/count_tokens", {"name": "now", "input_schema": {}}),
    ],
)
async def test_two_tools_of_one_name_are_refused(
    gateway: Gateway, path: str, tool: dict[str, Any]
) -> None:
    """Which of the two schemas binds a call would be chance."""
    error = await refused(gateway, path, BODIES[path] | {"tools": [tool, tool]})
    assert "tools" in error["message"] and "'now'" in error["message"]


@every_path
async def test_a_compressed_body_is_refused_by_its_header(gateway: Gateway, path: str) -> None:
    begun, body = await gateway.begin(), json.dumps(BODIES[path]).encode()
    headers = {"Authorization": f"Bearer {begun['api_key']}"}
    for encoding, status in (("gzip", 415), ("zstd", 415), ("identity", 200)):
        encoded = headers | {"Content-Encoding": encoding}
        answer = await gateway.http.post(path, content=body, headers=encoded)
        assert answer.status_code == status, answer.text
        if status != 200:
            message = error_in(answer.json())["message"]
            assert encoding in message and "enable_request_compression = false" in message


@every_path
async def test_a_path_with_a_slash_too_many_is_no_redirect(gateway: Gateway, path: str) -> None:
    """It would lead past the server's own path, and clients leave the key out where it leads."""
    begun = await gateway.begin()
    headers = {"Authorization": f"Bearer {begun['api_key']}"}
    answer = await gateway.http.post(f"{path}/", json=BODIES[path], headers=headers)
    assert (answer.status_code, answer.headers.get("location")) == (404, None)
    assert "/openai/v1" in error_in(answer.json())["message"]


async def test_a_tool_of_the_other_dialect_without_a_schema_is_named(gateway: Gateway) -> None:
    body = BODIES["/v1/messages"] | {"tools": [{"name": "now"}]}
    assert "tools.0.input_schema" in (await refused(gateway, "/v1/messages", body))["message"]


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"]
)
async def test_a_prompt_of_ten_megabytes(
    gateway: Gateway, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused by its size: encoding it would take seconds of everybody's time."""
    encode = gateway.renderer.encode

    def encode_little(text: str, **options: bool) -> tuple[int, ...]:
        assert len(text) < 10_000
        return encode(text, **options)

    monkeypatch.setattr(gateway.renderer, "encode", encode_little)
    text = "all work and no play " * (10 * 2**20 // 21)
    body = json.dumps(BODIES[path]).replace("hello", text).encode()
    error = await refused(gateway, path, body)
    limit = "> 512 maximum" if path == "/v1/messages" else "maximum context length is 512"
    assert limit in error["message"]


@pytest.mark.system
@pytest.mark.parametrize("family", ["chatml", "mistral"])
def test_the_bound_on_tokens_is_never_above_what_there_are(tmp_path: Path, family: str) -> None:
    build_tokenizer(tmp_path, family)
    renderer = Renderer(LightTokenizer(tmp_path))

    @any_speed
    @given(st.text(max_size=400) | st.text("<|start_header_id|> ", max_size=400))
    def bounded(text: str) -> None:
        assert renderer.least_tokens(text) <= len(renderer.encode(text))

    bounded()
    assert renderer.least_tokens("x" * 10_000) > 0


async def test_ten_thousand_messages(gateway: Gateway) -> None:
    turns = [
        {"role": role, "content": f"{n}"} for n in range(5_000) for role in ("user", "assistant")
    ]
    body = BODIES["/v1/chat/completions"] | {"messages": [*turns, *HELLO]}
    assert (
        "maximum context length"
        in (await refused(gateway, "/v1/chat/completions", body))["message"]
    )


async def test_a_body_over_sixteen_mebibytes(gateway: Gateway) -> None:
    for path in BODIES:
        await refused(gateway, path, b" " * (17 * 2**20), status=413)


@pytest.mark.parametrize(
    ("path", "name", "values"),
    [
        ("/v1/chat/completions", "stop", [["x"] * 17, "", [""], ["x" * 300], [7], 7]),
        ("/v1/completions", "stop", [["x"] * 17, "", ["x", ""]]),
        ("/v1/messages", "stop_sequences", [["x"] * 17, [""], "x", [7]]),
        ("/v1/chat/completions", "max_tokens", [-1, 0, 1.5, "5", True]),
        ("/v1/chat/completions", "max_completion_tokens", [-1, 0]),
        ("/v1/completions", "max_tokens", [-1, 0]),
        ("/v1/responses", "max_output_tokens", [-1, 0, "5"]),
        ("/v1/messages", "max_tokens", [-1, 0, None]),
    ],
)
async def test_stop_lists_and_lengths_out_of_bounds(
    gateway: Gateway, path: str, name: str, values: list
) -> None:
    for value in values:
        assert name in (await refused(gateway, path, BODIES[path] | {name: value}))["message"]


async def test_more_tokens_than_there_is_room_for_are_as_many_as_there_is_room_for(
    gateway: Gateway,
) -> None:
    begun = await gateway.begin()
    assert (await gateway.raw_chat(begun["api_key"], max_tokens=10**30)).status_code == 200
    seen = gateway.engine.requests[0]
    assert len(seen.prompt_ids) + seen.options.max_tokens == 512


@every_path
async def test_a_forged_or_foreign_key(gateway: Gateway, path: str) -> None:
    begun = await gateway.begin()
    claim = episode_key.read(begun["api_key"])
    own_key = bytes.fromhex("ab" * 32)
    foreign = episode_key.EpisodeClaim("ses_other", claim.episode_id, claim.expires_at)
    payload, signature = begun["api_key"].split(".")
    keys = [
        *("x", "sk-proj-1", "tml-ep-", "tml-ep-.", begun["api_key"][:-2], payload, "." + signature),
        episode_key.sign(b"guessed", claim),
        episode_key.sign(own_key, foreign),
        episode_key.sign(b"another session's key", foreign),
    ]
    for key in keys:
        status, _ = await post(gateway, path, key, BODIES[path])
        assert status == 401, key
    assert (await post(gateway, path, begun["api_key"], BODIES[path]))[0] == 200


@every_path
async def test_an_expired_key(tmp_path, path: str) -> None:
    clock = FakeClock(time.time())
    async with running_gateway(tmp_path, now=clock) as gateway:
        begun = await gateway.begin(timeout_s=10)
        clock.now += 11
        status, error = await post(gateway, path, begun["api_key"], BODIES[path])
        assert (status, "expired" in error["message"]) == (410, True)


@pytest.mark.system
async def test_a_key_opens_its_own_episode_and_no_other(gateway: Gateway) -> None:
    """Not by path, and not a closed one for ever; an id that the session never gave has no key at
    all.
    """
    first, second = await gateway.begin(), await gateway.begin()
    for begun in (first, second):
        await gateway.chat(begun)
    headers = {"Authorization": f"Bearer {first['api_key']}"}
    for other in (second["episode_id"], "epi_0000000000000000", "..", "%2e%2e", "x" * 500):
        assert (
            await gateway.http.get(f"/v1/episodes/{other}/calls", headers=headers)
        ).status_code == 404
    own_key, expires_at = bytes.fromhex("ab" * 32), episode_key.read(first["api_key"]).expires_at
    never = episode_key.sign(own_key, episode_key.EpisodeClaim(SESSION, "epi_never", expires_at))
    assert (await gateway.raw_chat(never)).status_code == 410
    await gateway.end(first["episode_id"])
    for path, body in BODIES.items():
        assert (await post(gateway, path, first["api_key"], body))[0] == 410
    assert len(gateway.journal.calls.of_episode(second["episode_id"])) == 1


@pytest.mark.parametrize("path", ["/episodes/epi_x", "/episodes/epi_x/calls"])
async def test_an_episode_of_another_session_is_none_here(gateway: Gateway, path: str) -> None:
    assert (await gateway.internal("GET", path)).status_code == 404
    for action, body in (("end", {"output": {"reward": 1}}), ("abandon", {}), ("heartbeat", {})):
        assert (
            await gateway.internal("POST", f"/episodes/epi_x/{action}", json=body)
        ).status_code == 404


async def test_options_that_the_engine_refuses_are_the_clients_error(gateway: Gateway) -> None:
    """Such as a schema that is none: the engine looks at it first."""
    begun = await gateway.begin()

    async def refuse(point: str) -> None:
        raise RequestRefused("Unsupported type banana")

    reach, gateway.engine.reach = gateway.engine.reach, refuse
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "banana"}}}
    answer = await gateway.raw_chat(begun["api_key"], response_format=schema)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
    assert "banana" in answer.json()["error"]["message"]
    gateway.engine.reach = reach
    assert gateway.faults == []
    assert (await gateway.raw_chat(begun["api_key"])).status_code == 200
    assert len(gateway.journal.calls.of_episode(begun["episode_id"])) == 1


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"enum": [str(number) for number in range(60_000)]}, "60000 values in its enums"),
        ({"enum": ["x" * 1000] * 200}, "200000 characters"),
        ({"anyOf": [{"enum": [str(number) for number in range(600)]}] * 2}, "1200 values"),
        (
            {"type": "object", "properties": {f"p{number}": {} for number in range(6000)}},
            "6000 properties",
        ),
        ({"type": "string", "maxLength": 10**9}, "maxLength"),
        ({"type": "array", "items": {"type": "array", "minItems": 10**6}}, "minItems"),
        (
            {"type": "string", "pattern": "^([a-z]{1,10}){1,100}$"},
            "repeats what repeats, up to 1000 times",
        ),
        (
            {"type": "object", "patternProperties": {"^([a-z]{1,10}){1,100}$": {}}},
            "repeats what repeats",
        ),
    ],
)
async def test_a_schema_whose_grammar_would_stall_the_engine_is_refused(
    gateway: Gateway, schema, said
) -> None:
    begun = await gateway.begin()
    response_format = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    answer = await gateway.raw_chat(begun["api_key"], response_format=response_format)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "response_format")
    assert said in answer.json()["error"]["message"]
    tool = {
        "type": "function",
        "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": schema}}},
    }
    forced = await gateway.raw_chat(begun["api_key"], tools=[tool], tool_choice="required")
    assert forced.status_code == 400
    assert forced.json()["error"]["param"] in ("tools", "messages"), (
        "larger than the context already"
    )
    text = {"model": MODEL, "prompt": "hello", "structured_outputs": {"json": schema}}
    headers = {"Authorization": f"Bearer {begun['api_key']}"}
    answer = await gateway.http.post("/v1/completions", json=text, headers=headers)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "structured_outputs")
    regex = {"structured_outputs": {"regex": "([a-z]{1,10}){1,100}"}}
    assert (
        await gateway.http.post("/v1/completions", json=text | regex, headers=headers)
    ).status_code == 400
    assert (await gateway.raw_chat(begun["api_key"], **regex)).status_code == 400
    assert gateway.engine.requests == []


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"",
        b"\xff",
        b"[]",
        b'{"output": {"reward": "high"}}',
        b'{"output": {"reward": NaN}}',
        b'{"x": 1}',
    ],
)
async def test_an_end_that_is_none_leaves_the_episode_open(gateway: Gateway, body: bytes) -> None:
    begun = await gateway.begin()
    await gateway.chat(begun)
    answer = await gateway.internal("POST", f"/episodes/{begun['episode_id']}/end", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]
    assert (await gateway.end(begun["episode_id"])).status_code == 200
