"""Small tasks that a 135M model can get better at: what it is asked, what is right, what earns a
reward.
"""

import json
import random
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "sdk" / "examples"))
from reviews import BLAME, HELD_OUT, PRAISE


@dataclass(frozen=True)
class Question:
    """``right`` is what ``score`` of its task looks for."""

    text: str
    right: str


@dataclass(frozen=True)
class Task:
    """``reward`` may give parts of the way, ``score`` is 1 for a right answer and 0 else. Lengths
    in tokens.

    A task with ``tools`` is played: the first answer continues ``opening``, and ``reply`` is the
    text that comes after an answer and before the next one, None where the game is over. All three
    functions are given all answers, one a line.
    """

    train: list[Question]
    held_out: list[Question]
    reward: Callable[[str, str], float]
    score: Callable[[str, str], float]
    max_tokens: int
    tools: Sequence[dict[str, Any]] = ()
    opening: str = ""
    reply: Callable[[str, str], str | None] = lambda answers, right: None
    # what of an answer the reward goes by: of two with the same number, the same
    read: Callable[[str], str] = lambda answers: answers


def questions_of_steps(task: Task, seed: int, steps: int, many: int) -> list[list[Question]]:
    """What is asked in each step: ``many`` different questions."""
    rng = random.Random(seed)
    return [rng.sample(task.train, many) for _ in range(steps)]


def classification() -> Task:
    """Is a short review positive or negative? The first label counts, and none is as bad as the
    wrong one.

    Where an answer without a label earned more than a wrong one, some runs learned to give none.
    """
    ask = 'Review: "{}" Is the review positive or negative? Answer with one word.'
    train = [Question(ask.format(text), "positive") for text in PRAISE]
    train += [Question(ask.format(text), "negative") for text in BLAME]
    held_out = [Question(ask.format(text), label) for text, label in HELD_OUT]

    def label(answer: str) -> str | None:
        named = re.search(r"\b(positive|negative)\b", answer.lower())
        return named[1] if named else None

    def reward(answer: str, right: str) -> float:
        return 1.0 if label(answer) == right else -1.0

    return Task(train, held_out, reward, lambda answer, right: float(label(answer) == right), 8)


def arithmetic() -> Task:
    """The sum of two digits, as the first number of the answer; a wrong number earns a tenth.

    With a part for each number that is near, the policy soon gives the middle of all sums to every
    question.
    """
    pairs = [(a, b) for a in range(1, 10) for b in range(1, 10)]
    random.Random(7).shuffle(pairs)
    questions = [
        Question(f"What is {a} + {b}? Answer with the number alone.", str(a + b)) for a, b in pairs
    ]

    def number(answer: str) -> int | None:
        found = re.search(r"\d+", answer)
        return int(found[0][:6]) if found else None

    def reward(answer: str, right: str) -> float:
        given = number(answer)
        return 0.0 if given is None else 1.0 if given == int(right) else 0.1

    return Task(
        questions[:57],
        questions[57:],
        reward,
        lambda answer, right: float(number(answer) == int(right)),
        6,
    )


NAMES = [
    "Ada",
    "Ben",
    "Cleo",
    "Dan",
    "Eva",
    "Finn",
    "Gus",
    "Hana",
    "Ivo",
    "Jane",
    "Kai",
    "Lea",
    "Max",
    "Nora",
]


def extraction() -> Task:
    """Name and age out of a sentence as a JSON object; each right field is half of the reward."""
    rng, questions = random.Random(8), []
    for name in NAMES * 4:
        age = rng.randint(18, 80)
        told = rng.choice(
            ["{} is {} years old.", "Meet {}, aged {}.", "{} turned {} last week."]
        ).format(name, age)
        text = f'{told} Answer with a JSON object with the keys "name" and "age" alone.'
        questions.append(Question(text, json.dumps({"name": name, "age": age})))

    def reward(answer: str, right: str) -> float:
        found = re.search(r"\{[^{}]*\}", answer)
        try:
            given = json.loads(found[0]) if found else None
        except ValueError:
            return 0.0
        if not isinstance(given, dict):
            return 0.0
        wanted = json.loads(right)
        return sum(str(given.get(key)) == str(value) for key, value in wanted.items()) / len(wanted)

    return Task(
        questions[:42],
        questions[42:],
        reward,
        lambda answer, right: float(reward(answer, right) == 1),
        24,
    )


GUESSES, RANGE = 3, 7  # halving a range of seven finds its number with the third guess
GUESS = {
    "type": "function",
    "function": {
        "name": "guess",
        "description": "Guess the number. The result is right, higher or lower.",
        "parameters": {
            "type": "object",
            "properties": {"number": {"type": "integer"}},
            "required": ["number"],
        },
    },
}


def guessing() -> Task:
    """A number from 1 to 7 in three calls of a tool; a last guess that is near earns up to a half.

    The call's form is given up to its number, as a forced call's is: the 135M model has never
    learned it. Held-out questions have each secret twice, and names that no question of the
    training has. With numbers of two digits, where halving needs sums, 12 steps taught nothing:
    after eight of them most groups gave one answer.
    """
    ask = f"{{}} thinks of a number from 1 to {RANGE}. Find it with three guesses."
    secrets = range(1, RANGE + 1)
    train = [Question(ask.format(name), str(secret)) for name in NAMES[:12] for secret in secrets]
    held_out = [
        Question(ask.format(name), str(secret)) for name in NAMES[12:] for secret in secrets
    ]

    def numbers(answers: str) -> list[int | None]:
        return [int(line) if line.strip().isdecimal() else None for line in answers.split("\n")]

    def reply(answers: str, right: str) -> str | None:
        guessed = numbers(answers)
        if guessed[-1] is None or guessed[-1] == int(right) or len(guessed) == GUESSES:
            return None
        said = "higher" if int(right) > guessed[-1] else "lower"
        call, turn = (
            "}}]</tool_call><|im_end|>\n",
            f"<tool_response>\n{said}\n</tool_response><|im_end|>\n",
        )
        return f"{call}<|im_start|>user\n{turn}<|im_start|>assistant\n{opening}"

    def reward(answers: str, right: str) -> float:
        last = numbers(answers)[-1]
        if last is None:
            return 0.0
        distance = abs(last - int(right))
        return 1.0 if distance == 0 else max(0.0, 0.5 - distance / (2 * RANGE))

    def score(answers: str, right: str) -> float:
        return float(numbers(answers)[-1] == int(right))

    opening = '<tool_call>[{"name": "guess", "arguments": {"number": '
    return Task(train, held_out, reward, score, 1, [GUESS], opening, reply)


TASKS: dict[str, Callable[[], Task]] = {
    "classification": classification,
    "arithmetic": arithmetic,
    "extraction": extraction,
    "guessing": guessing,
}
