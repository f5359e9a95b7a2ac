"""The runtime of ``runtime_with_fakes.py`` whose engines say what the programs of Agent-lightning's
Tinker bridge read.

As the player of a game it guesses a digit that its seed chooses, as the answerer it calls three of
the ten correct, so that rewards differ between samples of one prompt as a model's do.
"""

import json
import random
import re
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from e2e import runtime_with_fakes  # noqa: E402

from gpu_runtime.interfaces import SamplingOptions  # noqa: E402
from support.fakes import FakeEngine  # noqa: E402
from support.light_tokenizer import LightTokenizer  # noqa: E402
from support.tinker_fakes import FakeModelTrainer, FakeSamplerEngine  # noqa: E402
from tinkerscript.wire.runtime import Assignment  # noqa: E402

CALL = '<tool_call>\n{"name": "echo_text", "args": {"text": "loves tool calls"}}\n</tool_call>'
GUESSED = ("7", "8", "9")


def said(prompt: str, seed: int | None) -> str:
    """What the model says to the last message of ``prompt``."""
    chance = random.Random(seed)
    if number := re.findall(r"Say you are (\w+)\.", prompt):
        return chance.choice([f"I am {number[-1]}.", f"I am not {number[-1]}.", "Hello!"])
    if "You must call the provided tool" in prompt:
        return "It said so." if "Echoed text:" in prompt else CALL
    if "simulating a web search" in prompt:
        return "Nothing was found."
    return f"Is it {chance.randrange(10)}?" if "20 Questions" in prompt else "Hello!"


def answered(prompt: str) -> str:
    """The answerer's JSON about the question in ``prompt``."""
    guess = re.findall(r"Is it (\d)\?", prompt)
    correct = bool(guess) and guess[-1] in GUESSED
    return json.dumps(
        {"brief_reason": "a rule", "yes_or_no": "yes" if correct else "no", "correct": correct}
    )


def scripted(engine: FakeEngine) -> FakeEngine:
    """The same engine: JSON where the answerer's is asked for, else as the model."""

    def answer(prompt_ids: Sequence[int], options: SamplingOptions) -> list[int]:
        prompt = engine.tokenizer.decode(prompt_ids)
        text = answered(prompt) if options.json_schema else said(prompt, options.seed)
        return [*engine.encode(text), engine.end_id]

    engine.answer = answer
    return engine


def samples_of(tokenizer: LightTokenizer) -> Callable[[Sequence[int], int | None], list[int]]:
    return lambda prompt_ids, seed: [
        *tokenizer.encode(said(tokenizer.decode(prompt_ids), seed)),
        tokenizer.end_id,
    ]


@asynccontextmanager
async def scripted_tinker_open(
    assignment: Assignment,
) -> AsyncIterator[tuple[FakeSamplerEngine, FakeModelTrainer]]:
    async with tinker_fakes_open(assignment) as (engine, trainer):
        engine.answer = samples_of(scripted(engine.words).tokenizer)
        yield engine, trainer


@asynccontextmanager
async def scripted_served_open(assignment: Assignment, folder: str) -> AsyncIterator[FakeEngine]:
    async with served_fake_open(assignment, folder) as engine:
        yield scripted(engine)


if __name__ == "__main__":
    tinker_fakes_open = runtime_with_fakes.tinker_fakes_open
    served_fake_open = runtime_with_fakes.served_fake_open
    runtime_with_fakes.tinker_fakes_open = scripted_tinker_open
    runtime_with_fakes.served_fake_open = scripted_served_open
    sys.exit(runtime_with_fakes.run_with_fakes())
