"""Calls and thoughts between special tokens, by the templates of Gemma 4: a loop of calls is one
turn of the model.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.journal.timelines import agents_of, merge
from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering.calls.gemma import GemmaScanner, parse_gemma
from gpu_runtime.rendering.calls.gemma_grammar import gemma_call
from gpu_runtime.rendering.renderer import Renderer
from gpu_runtime.rendering.tool_grammars import forced_call, text_then_calls
from support.gateway_harness import MODEL, Gateway, running_gateway
from support.light_tokenizer import LightTokenizer
from support.real_templates import OTHER_CALLS
from support.tiny_tokenizers import GEMMA4, build_tokenizer
from support.tool_answers import TOOLS, xgrammar

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "near": {"type": "object"}},
}
TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "description": "It.", "parameters": PARAMETERS},
}
ASK = [{"role": "user", "content": "weather?"}]
ROME, OSLO = {"city": 'a "b" {c}, d: \n1', "near": {"at": [1, 2.5, True, None]}}, {"city": ""}
Q = '<|"|>'
CALLS = [
    (
        "<|tool_call>",
        "call:get_weather{near:{at:[1,2.5,true,null]},city:",
        Q,
        ROME["city"],
        Q,
        "}",
        "<tool_call|>",
    ),
    ("<|tool_call>", "call:get_weather{ city : ", Q, Q, "}", "<tool_call|>"),
]
TEXTS = ["".join(call) for call in CALLS]
THOUGHT = ("<|channel>", "thought\nI look.\n", "<channel|>")
THINK = {"chat_template_kwargs": {"enable_thinking": True}}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running_gateway(
        tmp_path, family="gemma4_v5", max_tokens=600, max_context_length=8192
    ) as gateway:
        yield gateway


def say(gateway: Gateway, *parts: str) -> None:
    """The next answer: marks as their tokens, text in ids that encoding it would never make."""
    encode = gateway.engine.encode
    parts = (*parts, "<|tool_response>" if parts[-1] == "<tool_call|>" else "<turn|>")
    letters = [
        encode(part) if part in GEMMA4 else [t for letter in part for t in encode(letter)]
        for part in parts
    ]
    gateway.engine.say(sum(letters, []))


async def asked(gateway: Gateway, begun: dict[str, Any], *, stream: bool, **options: Any) -> Any:
    """The message of an answer, by the client's own reading of it."""
    options = {"model": MODEL, "tools": [TOOL], "messages": ASK} | options
    completions = gateway.openai(begun).chat.completions
    if not stream:
        return (await completions.create(**options)).choices[0].message
    async with completions.stream(**options) as events:
        return (await events.get_final_completion()).choices[0].message


def arguments(message: Any) -> list[Any]:
    return [json.loads(call.function.arguments) for call in message.tool_calls or []]


@pytest.mark.parametrize("thinks", [False, True])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_loop_of_parallel_calls_is_one_timeline(
    gateway: Gateway, stream: bool, thinks: bool
) -> None:
    begun, messages = await gateway.begin(), list[Any](ASK)
    options = {"extra_body": THINK} if thinks else {}
    for number, parts in enumerate(((*CALLS[0], *CALLS[1]), CALLS[1], ("It is sunny.",))):
        # the prompt opens thoughts after a result
        inside = THOUGHT[bool(number) :] if thinks else ()
        first = inside and (inside[0].removeprefix("thought\n"), *inside[1:]) if number else inside
        say(gateway, *first, *parts)
        answer = await asked(gateway, begun, stream=stream, messages=messages, **options)
        assert getattr(answer, "reasoning_content", "") == ("I look." if thinks else "")
        assert arguments(answer) == [[ROME, OSLO], [OSLO], []][number]
        assert (answer.content or "") == ("It is sunny." if number == 2 else "")
        messages.append(answer.model_dump(exclude_none=True, exclude={"parsed": True}))
        messages += [
            {"role": "tool", "tool_call_id": c.id, "content": "sun"}
            for c in answer.tool_calls or []
        ]
    calls = gateway.journal.calls.of_episode(begun["episode_id"])
    assert [each.drift for each in calls] == [None] * 3
    assert sum(len(merge(pieces)) for pieces in agents_of(calls).values()) == 1
    read = gateway.renderer.decode(calls[-1].prompt_ids_P, special=True)
    assert f"<|tool_response>response:get_weather{{value:{Q}sun{Q}}}<tool_response|>" in read
    assert read.count("<|turn>model") == 1 and read.count("<|tool_response>") == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_a_forced_call_is_continued(gateway: Gateway, stream: bool) -> None:
    begun = await gateway.begin()
    say(gateway, *CALLS[0][1:])
    answer = await asked(gateway, begun, stream=stream, tool_choice="required")
    assert arguments(answer) == [ROME]
    seen = gateway.engine.requests[0]
    assert gateway.renderer.decode(seen.prompt_ids, special=True).endswith(
        "<|turn>model\n<|tool_call>"
    )
    assert '"grammar"' in seen.options.structural_tag
    assert set(gateway.engine.encode("<|tool_response>")) <= set(seen.options.stop_token_ids)
    messages = [*ASK, answer.model_dump(exclude_none=True)]
    messages.append({"role": "tool", "tool_call_id": answer.tool_calls[0].id, "content": "sun"})
    await gateway.chat(begun, messages=messages, tools=[TOOL])
    first, second = gateway.journal.calls.of_episode(begun["episode_id"])
    ids = first.prompt_ids_P + first.completions[0].token_ids_T
    assert second.drift is None and second.prompt_ids_P[: len(ids)] == ids


@pytest.mark.parametrize(
    "family", [family for family in OTHER_CALLS if family.startswith("gemma4")]
)
def test_the_form_is_read_off_each_revision_of_the_template(tmp_path: Path, family: str) -> None:
    renderer = Renderer(LightTokenizer(build_tokenizer(tmp_path, family)))
    assert renderer.tool_format.name == "gemma" and renderer.tool_format.quote_id is not None
    assert renderer.writes_calls and renderer.writes_many_calls and renderer.writes_results
    assert renderer.thoughts is not None and renderer.thoughts.closing == "<channel|>"


@pytest.mark.parametrize(
    "text",
    ["no call", "<|tool_call>", "<|tool_call>call:f", f"<|tool_call>call:f{{a:{Q}b", "<|tool_call>call:f{a:NaN}",
     "<|tool_call>call:f{a:b}<tool_call|>", "<|tool_call>call:f{a:1,}<tool_call|>", f"{TEXTS[0]} and so on"],
)  # fmt: skip
def test_a_slip_makes_all_of_an_answer_text(text: str) -> None:
    assert parse_gemma(text) == (text, [])


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_stream_of_calls_is_read_as_the_whole(size: int) -> None:
    text, scanner, found = "".join(TEXTS), GemmaScanner(), list[str]()
    for start in range(0, len(text), size):
        for piece in scanner.feed(text[start : start + size]):
            found += [""] if piece.name else []
            found[piece.index] += piece.arguments
    assert [json.loads(each) for each in found] == [ROME, OSLO]
    assert [json.loads(call.arguments) for call in parse_gemma(f"So: {text}")[1]] == [ROME, OSLO]


SCHEMA = {
    "type": "object",
    "properties": {
        "b": {"$ref": "#/$defs/Tree"},
        "a": {"type": ["integer", "null"]},
        "c": {"type": "array", "items": {"enum": ["x", 1]}},
        "d": {},
    },
    "required": ["a"],
    "$defs": {
        "Tree": {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/Tree"}, "on": {"type": "boolean"}},
        }
    },
}
MARKS = [*GEMMA4[4:6], Q]
LISTED = xgrammar.TokenizerInfo(
    [*map(chr, range(32, 127)), "\n", "</s>", *(mark.encode() for mark in MARKS)],
    stop_token_ids=[96],
)


def takes(tag: str, text: str, *, spelled: bool = False) -> bool:
    """Whether the whole of ``text``, its marks as their tokens or ``spelled`` in letters, is an
    answer under the structural tag.
    """
    ids, rest, marks = list[int](), text, [] if spelled else MARKS
    while rest:
        mark = next((mark for mark in marks if rest.startswith(mark)), rest[0])
        ids.append(
            97 + MARKS.index(mark) if mark in MARKS else 95 if mark == "\n" else ord(mark) - 32
        )
        rest = rest.removeprefix(mark)
    compiled = xgrammar.GrammarCompiler(LISTED).compile_structural_tag(tag)
    matcher = xgrammar.GrammarMatcher(compiled)
    return all(matcher.accept_token(token) for token in [*ids, 96])


def test_a_grammar_holds_a_call_to_its_schema(tmp_path: Path) -> None:
    read = Renderer(LightTokenizer(build_tokenizer(tmp_path, "gemma4_v5"))).tool_format
    call_format = type(read)(**{**vars(read), "marker_id": 97, "end_id": 98, "quote_id": 99})
    tree = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
    forced = forced_call(call_format, [*TOOLS, tree], many=False)
    rest = f"{{value:{{}},c:[{Q}x{Q},1],b:{{next:{{on:true}},on:false}}"
    right = [
        f"call:get_weather{{city:{Q}Rome{Q}}}",
        "call:now{}",
        "call:f{a:null}",
        "call:f{a:-5,b:{}}",
    ]
    right += [
        f"call:f{{a:1,b:{{next:{{on:true}},on:false}},c:[{Q}x{Q},1],d:{{k:[{Q}any thing{Q},1.5e3,null]}}}}"
    ]
    wrong = [
        f"call:get_weather{{city:{Q}Mars{Q}}}",
        "call:get_weather{}",
        "call:rm{}",
        "call:f{}",
        "call:f{a:x}",
        rest,
    ]
    wrong += ["call:f{a:1,c:[2]}", "call:f{a:1,}", f"call:f{{a:1,d:{Q}open}}"]
    for text in right:
        assert takes(forced, f"{text}<tool_call|>"), text
    for text in wrong:
        assert not takes(forced, f"{text}<tool_call|>"), text
    assert not takes(forced, f"{right[1]}<tool_call|>", spelled=True), "its end is a token"
    several = text_then_calls(call_format, TOOLS, many=True)
    one = f"<|tool_call>{right[0]}<tool_call|>"
    assert (
        takes(several, "It is sunny.")
        and takes(several, f"So: {one}{one}")
        and not takes(several, "<|tool_call>")
    )


def test_a_schema_that_the_grammar_cannot_hold_a_call_to_is_refused_by_name() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "x+"}}}
    with pytest.raises(BadRequest, match="'pattern'"):
        gemma_call({"name": "f", "parameters": schema}, 1, [1])


def grammar_of(**schema: Any) -> str:
    return gemma_call({"name": "f", "parameters": schema}, 99, [99])


def test_a_grammar_is_as_long_as_its_schema() -> None:
    def nested(depth: int) -> str:
        schema: dict[str, Any] = {"type": "string"}
        for number in range(depth):
            many = {"type": ["array", "array"], "items": schema}
            schema = many if number % 2 else {"anyOf": [many, {"type": "null"}]}
        return grammar_of(properties={"a": schema})

    five, ten, twenty = (len(nested(depth)) for depth in (5, 10, 20))
    assert twenty - ten < 3 * (ten - five)
    values = [f"value {number}" for number in range(500)]
    names = {
        f"a{number}": {"$ref": "#" + "/" * (number % 9 + 1) + "$defs/E"} for number in range(500)
    }
    referring = grammar_of(properties=names, **{"$defs": {"E": {"enum": values}}})
    assert referring.count("value 7 ") + referring.count('"value 7"') == 1


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"properties": {"a": {"enum": None}}}, "enum is no list"),
        ({"properties": {"a": {"anyOf": []}}}, "anyOf is no list"),
        ({"required": 5}, "required is no list"),
        ({"properties": ["a"]}, "properties is no object"),
        ({"type": 5}, "5 is no type"),
        ({"type": ["object", {}]}, "is no type"),
        ({"properties": {"a": 5}}, "5 stands where"),
        ({"properties": {"a": {"type": "array", "items": [{}]}}}, "stands where"),
        ({"properties": {"a": {"enum": [float("inf")]}}}, "not finite"),
        ({"properties": {"a": {"$ref": "#/$defs/B"}}}, "refers to nothing"),
        ({"properties": {"a": {"$ref": "other.json"}}}, "refers to nothing"),
        (
            {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}}},
            "refers to itself",
        ),
        ({"$ref": "#"}, "refers to itself"),
        ({"properties": {"dc:title": {}}}, "'dc:title'"),
        ({"properties": {" a": {}}}, "' a'"),
        ({"properties": {"a": {"enum": [["x"]]}}}, "of an enum"),
        ({"properties": {"a": {"const": {"b": 1}}}}, "of an enum"),
        ({"properties": {"a": {"enum": [Q]}}}, "of an enum"),
        ({"required": ["b"], "properties": {"a": {}}}, "'b'"),
    ],
)
def test_a_schema_that_is_none_or_is_not_held_is_refused(schema: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said) as caught:
        grammar_of(**schema)
    assert caught.value.param == "tools"


def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(2_000):
        deep = {"properties": {"a": deep}}
    with pytest.raises(BadRequest, match="levels deep"):
        grammar_of(**deep)


def test_objects_within_objects_are_held_to_the_schema_of_the_whole(tmp_path: Path) -> None:
    read = Renderer(LightTokenizer(build_tokenizer(tmp_path, "gemma4_v5"))).tool_format
    call_format = type(read)(**{**vars(read), "marker_id": 97, "end_id": 98, "quote_id": 99})
    counts = {
        "type": "object",
        "additionalProperties": {"type": "array", "items": {"type": "integer"}},
    }
    schema = {"properties": {"next": {"$ref": "#"}, "a b": {"type": "number"}, "counts": counts}}
    function = {"type": "function", "function": {"name": "f", "parameters": schema}}
    forced = forced_call(call_format, [function], many=False)
    for text in ("{}", "{next:{next:{a b:1}}}", "{counts:{x:[1],y:[]}}", "{a b:1e99}"):
        assert takes(forced, f"call:f{text}<tool_call|>"), text
    for text in ("[]", "1", "{next:1}", "{counts:{x:[1.5]}}", "{counts:{x:1}}", "{a b:1e999}"):
        assert not takes(forced, f"call:f{text}<tool_call|>"), text


async def test_a_tool_whose_schema_is_too_large_is_refused_before_a_grammar_is_made(
    gateway: Gateway,
) -> None:
    begun = await gateway.begin()
    values = {"enum": [str(number) for number in range(1_001)]}
    parameters = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/E"}},
        "$defs": {"E": values},
    }
    tool = {
        "type": "function",
        "function": {"name": "f", "description": "It.", "parameters": parameters},
    }
    answer = await gateway.raw_chat(
        begun["api_key"], messages=ASK, tools=[tool], tool_choice="required"
    )
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "tools")
    assert "1001 values in its enums" in error["message"]
    assert gateway.engine.requests == []
    assert (await gateway.raw_chat(begun["api_key"], messages=ASK, tools=[tool])).status_code == 200
