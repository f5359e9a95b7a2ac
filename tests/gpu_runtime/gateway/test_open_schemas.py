"""Grammars have an end: blanks and digits are bounded, and a call is warned of what else is
open.
"""

import json
from typing import Any

import pytest

from gpu_runtime.generation.schemas import WARNING, open_parts
from support.gateway_harness import Gateway

TWO = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "string", "maxLength": 9}},
}


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({}, ["x: any value"]),
        ({"type": "object"}, ["x: any object"]),
        (TWO, ["x.a: a string without maxLength"]),
        ({"type": ["string", "null"]}, ["x: a string without maxLength"]),
        ({"type": "array", "items": {"enum": ["a"]}}, ["x: an array without maxItems"]),
        (
            {"type": "array", "maxItems": 2, "items": {"type": "string"}},
            ["x[]: a string without maxLength"],
        ),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, ["x: a string without maxLength"]),
        ({"type": "string", "enum": ["a"]}, []),
        ({"type": "integer"}, []),
    ],
)
def test_what_a_schema_leaves_open_is_named_by_its_place(
    schema: dict[str, Any], found: list[str]
) -> None:
    assert open_parts(schema, "x") == found


async def test_a_call_is_warned_in_its_answer_and_its_record(gateway: Gateway) -> None:
    begun = await gateway.begin(eval=True)
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": TWO}}
    answer = await gateway.raw_chat(begun["api_key"], response_format=form)
    assert answer.json()["warnings"] == [f"{WARNING}: the answer.a: a string without maxLength"]
    answer = await gateway.raw_chat(begun["api_key"], response_format={"type": "json_object"})
    assert answer.json()["warnings"] == [f"{WARNING}: the answer: any object"]
    tool = {"type": "function", "function": {"name": "f", "parameters": TWO, "strict": True}}
    assert (
        "tools.f.a"
        in (await gateway.raw_chat(begun["api_key"], tools=[tool])).json()["warnings"][0]
    )
    assert "warnings" not in (await gateway.raw_chat(begun["api_key"])).json()
    calls = gateway.journal.calls.of_episode(begun["episode_id"])
    assert calls[0].options["labels"][WARNING] == ["the answer.a: a string without maxLength"]
    assert "labels" not in calls[-1].options


def test_blanks_and_digits_are_bounded_wherever_a_schema_stands() -> None:
    xgrammar = pytest.importorskip("xgrammar", reason="it needs the full set-up, `make test`")
    from xgrammar.testing import _is_grammar_accept_string as accepts

    from gpu_runtime.engine.grammars.bounds import bounded

    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "number"}, "c": {}},
    }
    tag = {"type": "sequence", "elements": [{"type": "json_schema", "json_schema": schema}]}
    grammar = xgrammar.Grammar.from_structural_tag(
        json.dumps({"type": "structural_tag", "format": bounded(tag)})
    )
    fits = [
        '{"a": 12, "b": -1.5e10, "c": [{"d": "x, \\"y"}]}',
        "{}",
        '{"a": ' + "1" * 18 + "}",
        "{" + " " * 8 + "}",
    ]
    fits += ['{"b": 0.' + "1" * 17 + "}"]
    too_long = [
        '{"a": ' + "1" * 19 + "}",
        '{"b": ' + "1" * 19 + "}",
        '{"b": 0.' + "1" * 18 + "}",
        '{"b": 1e100}',
    ]
    too_long += ["{" + " " * 9 + "}", '{"c": ' + "1" * 19 + "}", '{"c": [' + " " * 9 + "1]}"]
    assert [text for text in fits if not accepts(grammar, text)] == []
    assert [text for text in too_long if accepts(grammar, text)] == []
