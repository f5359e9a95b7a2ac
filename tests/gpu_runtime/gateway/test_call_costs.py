"""What reading a call costs: as much as it is long, however it arrives. Counted, for times vary."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from gpu_runtime.generation.answer_cutters import OneCall
from gpu_runtime.interfaces import Delta
from gpu_runtime.rendering.calls import xml
from gpu_runtime.rendering.calls.gemma import QUOTE, GemmaArguments, parse_gemma
from gpu_runtime.rendering.calls.schema_types import argument
from gpu_runtime.rendering.calls.xml import XmlScanner
from gpu_runtime.rendering.marks import MarkedText
from gpu_runtime.rendering.tool_formats import HERMES

LONG = "x </param" * 500


class CountedPattern:
    """A pattern that counts the letters that it is given to search."""

    def __init__(self, pattern) -> None:
        self._pattern, self.letters = pattern, 0

    def search(self, text: str, start: int):
        self.letters += len(text) - start
        return self._pattern.search(text, start)


class CountedText(str):
    letters = 0

    def find(self, part: str, start: int) -> int:
        CountedText.letters += len(self) - start
        return super().find(part, start)


def test_a_long_argument_between_marks_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = CountedPattern(xml.VALUE_END)
    monkeypatch.setattr(xml, "VALUE_END", counted)
    scanner = XmlScanner({})
    text = f"<tool_call>\n<function=f>\n<parameter=a>\n{LONG}\n</parameter>\n</function>"
    pieces = [piece for letter in text for piece in scanner.feed(letter)]
    assert json.loads("".join(piece.arguments for piece in pieces)) == {"a": LONG}
    assert counted.letters < 20 * len(text)


def test_a_long_string_between_quotes_is_searched_once() -> None:
    arguments, written, position, text = GemmaArguments(), "", 0, f"{{a:{QUOTE}{LONG}{QUOTE}}}"
    for end in range(1, len(text) + 1):
        more, position = arguments.take(CountedText(text[:end]), position)
        written += more
    assert json.loads(written) == {"a": LONG}
    assert CountedText.letters < 20 * len(text)


def test_a_key_that_never_ends_is_no_work() -> None:
    text = "<|tool_call>call:f{a" + "\n" * 200_000
    assert parse_gemma(text) == (text, [])


def test_an_answer_of_closing_marks_is_parsed_once_for_each() -> None:
    parsed = 0

    def parse(text: str):
        nonlocal parsed
        parsed += 1
        return HERMES.parse(text)

    mark, count = "</tool_call>", 200
    cutter = OneCall(replace(HERMES, parse=parse), lambda ids: mark * len(ids))
    for _ in range(count):
        delta = Delta(mark, (1,), (0.0,), version=0)
        assert cutter.cut(delta) == [delta]
    assert parsed == 0, "there is no call to end"
    cutter = OneCall(replace(HERMES, parse=parse), lambda ids: mark * len(ids))
    cutter.cut(Delta("<tool_call>{", (1,), (0.0,), version=0))
    for part in [mark[:5], mark[5:]] * count:
        cutter.cut(Delta(part, (1,), (0.0,), version=0))
    assert parsed == count


def test_each_token_is_decoded_a_few_times_however_many_marks_there_are() -> None:
    decoded, words = 0, {1: "a", 2: "bc", 3: ""}

    def decode(ids: Sequence[int]) -> str:
        nonlocal decoded
        decoded += len(ids)
        return "".join(words[token] for token in ids)

    ids = [7, 1, 2, 3, 7, 7, 2] * 300
    text = "".join(words.get(token, "") for token in ids)
    marked = "".join(words.get(token, "[M]") for token in ids)
    for size in (1, len(ids)):
        decoded, marks, found = 0, MarkedText({7: "[M]"}, decode), ""
        for start in range(0, len(ids), size):
            part = ids[start : start + size]
            found += marks.feed("".join(words.get(token, "") for token in part), part)
        assert found == marked and found.replace("[M]", "") == text
        assert decoded < 20 * len(ids)


def test_alternatives_that_refer_to_each_other_are_looked_at_a_bounded_number_of_times() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}] * 30}},
    }
    assert argument("5", "a", schema) == 5
