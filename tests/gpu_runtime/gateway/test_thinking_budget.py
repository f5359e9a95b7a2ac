"""What a thinking budget costs: nothing for the text behind the thoughts."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from gpu_runtime.generation.thinking_budget import ThinkingBudget
from gpu_runtime.interfaces import Delta, SamplingOptions
from gpu_runtime.rendering.answer_parser import AnswerParser
from gpu_runtime.rendering.marks import MarkedText
from gpu_runtime.rendering.thoughts import ThoughtFormat

OPENED = ThoughtFormat("<think>", "</think>", begins_inside=True)


async def test_behind_its_thoughts_a_budget_decodes_nothing() -> None:
    text = "hm</think>" + "four " * 40
    decoded: list[int] = []

    def decode(ids: Sequence[int]) -> str:
        decoded.append(len(ids))
        return "".join(map(chr, ids))

    class Engine:
        async def generate(self, *_: Any) -> AsyncGenerator[Delta, None]:
            for letter in text:
                yield Delta(letter, (ord(letter),), (0.0,), version=0)
            yield Delta("", (), (), version=0, finish_reason="stop")

    def reader() -> AnswerParser:
        marks = MarkedText({}, decode)
        return AnswerParser(
            None, is_forced=False, is_guaranteed=False, marks=marks, thoughts=OPENED
        )

    budget = ThinkingBudget(20, (0,), reader, decode, 256)
    deltas = [
        delta
        async for delta in budget.generate(Engine(), "call", (1,), SamplingOptions(max_tokens=999))
    ]
    assert "".join(delta.text for delta in deltas) == text
    assert decoded == []
