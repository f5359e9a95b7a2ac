"""Calls with slips: read as vLLM reads them, the same streamed and whole, and reported; text in a
strict session.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.rendering.calls.lenient import read_hermes, read_llama, read_xml
from gpu_runtime.rendering.thoughts import ThoughtFormat
from support.gateway_harness import MODEL, Gateway, running_gateway

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "state": {"type": "string"},
        "n": {"type": "integer"},
    },
}
TOOL = {"type": "function", "function": {"name": "f", "description": "It.", "parameters": SCHEMA}}
ASK = [{"role": "user", "content": "weather?"}]
ROME = "<parameter=city>\nRome\n</parameter>\n"
CALL = f"<tool_call>\n<function=f>\n{ROME}</function>\n</tool_call>"
HERMES_CALL = '<tool_call>\n{"name": "f", "arguments": {"city": "Rome"}}\n</tool_call>'
# What vLLM's Qwen3Parser makes of these answers: its text (stripped) and its calls' arguments.
XML_READ: list[tuple[str, str, list[dict[str, Any]]]] = [
    (f"<tool_call>\n<function=f>\n{ROME}</tool_call>", "", [{"city": "Rome"}]),
    (f"<tool_call>\n<function=f>\n{ROME}", "", [{"city": "Rome"}]),
    (f"So:\n<function=f>\n{ROME}</function>", "So:", [{"city": "Rome"}]),
    (f"{CALL}\n{CALL}", "", [{"city": "Rome"}, {"city": "Rome"}]),
    (CALL.replace("</tool_call>", CALL), "", [{"city": "Rome"}, {"city": "Rome"}]),
    (f"So {CALL} done.", "So", [{"city": "Rome"}]),
    (CALL.replace("Rome", "a </parameter> b"), "", [{"city": "a "}]),
    (CALL.replace("Rome", "a <parameter=state> b"), "", [{"city": "a ", "state": " b"}]),
    (CALL.replace("Rome", "a </tool_call> b"), "", [{"city": "a </tool_call> b"}]),
    (CALL.replace(ROME, ROME + ROME.replace("Rome", "Oslo")), "", [{"city": "Oslo"}]),
    (CALL.replace("city", "n").replace("Rome", "5"), "", [{"n": 5}]),
    (
        "<tool_call><function=f><parameter=city>Rome</parameter></function></tool_call>",
        "",
        [{"city": "Rome"}],
    ),
]
DROPPED = "<tool_call>\n<function=f>\n<parameter=city>\nDallas\n<parameter=state>\nTX\n</function>\n</tool_call>"


def arguments(calls: list[Any]) -> list[dict[str, Any]]:
    return [json.loads(call.arguments) for call in calls]


@pytest.mark.parametrize(("text", "content", "calls"), XML_READ)
def test_xml_calls_are_read_as_vllm_reads_them(
    text: str, content: str, calls: list[dict[str, Any]]
) -> None:
    read = read_xml(text, {"f": SCHEMA})
    assert (read[0], arguments(read[1])) == (content, calls)


def test_a_value_that_nothing_closes_counts() -> None:
    assert arguments(read_xml(DROPPED, {"f": SCHEMA})[1]) == [{"city": "Dallas", "state": "TX"}]
    assert read_xml("<tool_call>\nhello\n</tool_call>", {}) == (
        "<tool_call>\nhello\n</tool_call>",
        [],
    )


@pytest.mark.parametrize("rest", ["<parameter=" * 10_000, "<parameter=" + " " * 100_000])
def test_an_answer_that_repeats_itself_is_read_in_time(rest: str) -> None:
    text = "<function=" * 10_000
    assert read_xml(text, {}) == (text, [])
    assert arguments(read_xml(f"<function=f>{rest}", {})[1]) == [{}]


def test_hermes_calls_end_with_the_next_mark() -> None:
    assert (
        arguments(read_hermes(f"So {HERMES_CALL}\n{HERMES_CALL[:-13]}")[1])
        == [{"city": "Rome"}] * 2
    )
    quoted = HERMES_CALL.replace("Rome", "a </tool_call> b")
    for text in (
        quoted,
        '<tool_call>{"name": "f"}</tool_call>',
        f"{HERMES_CALL[:-12]}{HERMES_CALL}",
    ):
        assert read_hermes(text) == (text, [])


def test_llama_calls_name_their_arguments_in_two_ways() -> None:
    text = '{"name": "f", "arguments": {"n": 1}}; {"name": "f", "parameters": {"n": 2}}'
    assert arguments(read_llama(text)[1]) == [{"n": 1}, {"n": 2}]
    assert read_llama('{"n": 1}') == ('{"n": 1}', [])


def test_thoughts_end_before_a_call_however_the_text_is_cut() -> None:
    form = ThoughtFormat("<think>", "</think>", begins_inside=True, or_before=("<tool_call>",))
    assert form.split(f"I look.\n{CALL}") == ("I look.", CALL)
    assert form.split("I look.\n</think>\n\nso") == ("I look.", "so")
    assert form.split("a <tool_ b") == ("a <tool_ b", "")


async def both(gateway: Gateway, text: str) -> tuple[str | None, str, list[dict[str, Any]]]:
    """Thoughts, text and calls of an answer, which are the same whole and streamed."""
    begun, options = await gateway.begin(eval=True), {"messages": ASK, "tools": [TOOL]}
    letters = [token for letter in text for token in gateway.engine.encode(letter)]
    gateway.engine.say(*[[*letters, gateway.engine.end_id]] * 2)
    whole = (await gateway.chat(begun, **options)).choices[0].message
    thoughts, content, calls = "", "", dict[int, str]()
    async for chunk in await gateway.openai(begun).chat.completions.create(
        model=MODEL, stream=True, **options
    ):
        delta = chunk.choices[0].delta
        thoughts += getattr(delta, "reasoning_content", None) or ""
        content += delta.content or ""
        for call in delta.tool_calls or []:
            calls[call.index] = calls.get(call.index, "") + (call.function.arguments or "")
    made = [call.function.arguments for call in whole.tool_calls or []]
    assert (getattr(whole, "reasoning_content", None) or "", whole.content or "") == (
        thoughts,
        content,
    )
    assert made == list(calls.values())
    return thoughts or None, content, [json.loads(each) for each in made]


CASES = [
    ("qwen3_6", f"I should look.\n{CALL}", ("I should look.", "", [{"city": "Rome"}])),
    (
        "qwen3_6",
        f"I should look.\n</think>\n\n{DROPPED}",
        ("I should look.", "", [{"city": "Dallas", "state": "TX"}]),
    ),
    (
        "opens_thoughts",
        f"I should look.\n{HERMES_CALL}",
        ("I should look.", "", [{"city": "Rome"}]),
    ),
    ("qwen3_5_nothink", f"So:\n<function=f>\n{ROME}</function>", (None, "So:", [{"city": "Rome"}])),
]


@pytest.mark.parametrize(("family", "text", "read"), CASES)
async def test_slips_of_calls_are_read_in_a_lenient_session_and_reported(
    tmp_path: Path, family: str, text: str, read: tuple[str | None, str, list[dict[str, Any]]]
) -> None:
    async with running_gateway(
        tmp_path, family=family, max_tokens=300, max_context_length=4096
    ) as gateway:
        assert await both(gateway, text) == read
        (call, _) = gateway.journal.calls.of_episode(
            next(iter(gateway.journal.episodes.page(limit=1))).id
        )
        assert call.options["labels"] == {"calls read with slips": [0]}
        if family == "opens_thoughts":  # its template leaves the thoughts of an answer out
            return
        # The conversation goes on with what was sampled.
        begun = await gateway.begin(eval=True)
        gateway.engine.say(
            [*(t for letter in text for t in gateway.engine.encode(letter)), gateway.engine.end_id]
        )
        answer = (await gateway.chat(begun, messages=ASK, tools=[TOOL])).choices[0].message
        echo = answer.model_dump(exclude_none=True)
        results = [
            {"role": "tool", "tool_call_id": each.id, "content": "sun"}
            for each in answer.tool_calls
        ]
        await gateway.chat(begun, messages=[*ASK, echo, *results], tools=[TOOL])
        first, second = gateway.journal.calls.of_episode(begun["episode_id"])
        assert second.parent is not None and second.parent.call_id == first.id


@pytest.mark.parametrize(("family", "text"), [(family, text) for family, text, _ in CASES])
async def test_slips_of_calls_are_text_in_a_strict_session(
    tmp_path: Path, family: str, text: str
) -> None:
    options: dict[str, Any] = {
        "max_tokens": 300,
        "max_context_length": 4096,
        "tool_parsing": "strict",
    }
    async with running_gateway(tmp_path, family=family, **options) as gateway:
        thoughts, content, calls = await both(gateway, text)
        assert calls == [] and (thoughts or "") + content
