"""Eight small tasks for a look at default settings: no answer is right for 30 % of the held-out
questions, so a policy that gives one answer to all is seen.

What is held out has words, sets or numbers that no question of the training has. Rewards are from
0 to 1, and are 1 for a right answer alone.
"""

import json
import random
import re
from collections.abc import Callable
from itertools import chain, combinations
from typing import Any

from learning.tasks import Question, Task

HELD_OUT = 28


def _words(text: str) -> list[str]:
    return text.split()


# most have a letter three times, the others two letters twice
WORDS = _words(
    "banana cheese pepper bubble tomorrow eleven sleeves degree between tattoo success canada "
    "panama pajamas business puppy daddy mommy papaya savanna element needle freeze sneeze excellent "
    "initial error mirror outdoor letter rabbit coffee cotton button dinner yellow carrot needles kitten"
)
KINDS = {
    "animals": _words("dog cat horse cow sheep goat pig lion tiger bear"),
    "fruits": _words("apple pear plum cherry lemon grape mango peach melon orange"),
    "clothes": _words("shirt coat hat shoe sock glove scarf dress skirt belt"),
    "tools": _words("hammer saw drill wrench shovel rake axe file knife pliers"),
    "vehicles": _words("car bus train truck boat plane bike tram van ship"),
}
KEYS = _words("name age city color price size date title email phone")
PLACES = _words(
    "table garden kitchen river school office station forest market bridge window castle island "
    "tower village harbor museum library cellar valley"
)
CALCULATE = {
    "type": "function",
    "function": {
        "name": "calculate",
        "description": "The value of an expression.",
        "parameters": {
            "type": "object",
            "properties": {"expression": {"type": "string"}},
            "required": ["expression"],
        },
    },
}


def _task(
    questions: list[Question],
    reward: Callable[[str, str], float],
    max_tokens: int,
    *turns: Any,
    form: str | None = None,
) -> Task:
    """The last of ``questions`` are held out; ``turns`` are what a task with tools has. Of an
    answer the reward goes by the first place that has ``form``.
    """
    train, held_out = questions[:-HELD_OUT], questions[-HELD_OUT:]

    def score(said: str, right: str) -> float:
        return float(reward(said, right) == 1)

    def read(said: str) -> str:
        found = re.search(form, said.lower()) if form else None
        return found[0] if found else said

    return Task(train, held_out, reward, score, max_tokens, *turns, read=read)


def _numbers(said: str) -> list[int]:
    return [int(digits[:9]) for digits in re.findall(r"\d+", said)]


def _first_number_is(said: str, right: str) -> float:
    return float(_numbers(said)[:1] == [int(right)])


def _first_named(words: list[str]) -> Callable[[str, str], float]:
    """1 where the first of ``words`` in an answer is right, as in: The word "van" does not.

    Where the first word of the answer had to be right, no attempt of eight batches earned anything.
    """

    def reward(said: str, right: str) -> float:
        named = [word for word in re.findall(r"[a-z]+", said.lower()) if word in words]
        return float(named[:1] == [right])

    return reward


def _one_of(words: list[str]) -> str:
    return rf"\b(?:{'|'.join(words)})\b"


def letters() -> Task:
    """How often a letter is in a word: 0, 1, 2 and 3 are right equally often."""
    ask = 'How many times is the letter "{}" in the word "{}"? Answer with a number alone.'
    rng = random.Random(12)

    def balanced(words: list[str], each: int) -> list[Question]:
        of_count: dict[int, list[Question]] = {count: [] for count in range(4)}
        for word in words:
            for letter in sorted({*word, *rng.sample("aeioprstn", 3)}):
                count = word.count(letter)
                of_count[count].append(Question(ask.format(letter, word), str(count)))
        return [question for asked in of_count.values() for question in rng.sample(asked, each)]

    words = rng.sample(WORDS, len(WORDS))
    asked = balanced(words[:-15], 12) + balanced(words[-15:], HELD_OUT // 4)
    return _task(asked, _first_number_is, 6, form=r"\d+")


def sorting() -> Task:
    """Four numbers from small to large; the reward is the share of places that are right."""
    rng, questions = random.Random(11), []
    for _ in range(100):
        drawn = rng.sample(range(1, 100), 4)
        asked = ", ".join(map(str, drawn))
        text = f"Sort from small to large: {asked}. Answer with the four numbers alone."
        questions.append(Question(text, ", ".join(map(str, sorted(drawn)))))

    def reward(said: str, right: str) -> float:
        given, wanted = _numbers(said), _numbers(right)
        if len(given) != len(wanted):
            return 0.0
        return sum(a == b for a, b in zip(given, wanted, strict=True)) / len(wanted)

    return _task(questions, reward, 20)


def keys() -> Task:
    """A JSON object with three keys: those that are asked for beside all that were named."""
    sets = [*combinations(KEYS, 3)]
    random.Random(13).shuffle(sets)
    ask = "Invent an example. Answer with a JSON object with the keys {} alone."
    questions = [
        Question(ask.format(", ".join(f'"{key}"' for key in of_set)), json.dumps([*of_set]))
        for of_set in sets
    ]

    def reward(said: str, right: str) -> float:
        found = re.search(r"\{[^{}]*\}", said)
        try:
            given = set(json.loads(found[0])) if found else set()
        except ValueError:
            return 0.0
        wanted = set(json.loads(right))
        return len(given & wanted) / len(given | wanted)

    return _task(questions, reward, 48)


def calculator() -> Task:
    """A sum in two turns: an expression for a tool, whose form is given up to it, then the answer.

    A call that can be computed earns a tenth, one with the right value three; an answer without
    a call nothing.
    """
    rng, questions = random.Random(14), []
    for _ in range(100):
        a, b = rng.sample(range(11, 100), 2)
        questions.append(Question(f"What is {a} + {b}? Answer with the number alone.", str(a + b)))

    def value(call: str) -> int | None:
        form = re.fullmatch(
            r'\s*(\d{1,9})(?:\s*([-+*])\s*(\d{1,9}))?\s*"\}\}\]</tool_call>\s*', call
        )
        if form is None:
            return None
        a, b = int(form[1]), int(form[3] or 0)
        return {"-": a - b, "*": a * b}.get(form[2], a + b)

    def reply(said: str, right: str) -> str | None:
        call, *rest = said.split("\n")
        if rest or value(call) is None:
            return None
        told = f"<tool_response>\n{value(call)}\n</tool_response>"
        return f"\n<|im_start|>user\n{told}<|im_end|>\n<|im_start|>assistant\n"

    def reward(said: str, right: str) -> float:
        call, *rest = said.split("\n")
        if value(call) is None:
            return 0.0
        if rest and _first_number_is(rest[0], right):
            return 1.0
        return 0.3 if value(call) == int(right) else 0.1

    opening = '<tool_call>[{"name": "calculate", "arguments": {"expression": "'
    return _task(questions, reward, 20, [CALCULATE], opening, reply)


def odd_word() -> Task:
    """The word of another kind among four."""
    rng = random.Random(15)
    ask = "Which word does not belong: {}? Answer with the word alone."

    def asked(many: int, words: slice) -> list[Question]:
        questions = []
        for _ in range(many):
            kind, other = rng.sample(sorted(KINDS), 2)
            odd = rng.choice(KINDS[other][words])
            four = [*rng.sample(KINDS[kind][words], 3), odd]
            rng.shuffle(four)
            questions.append(Question(ask.format(", ".join(four)), odd))
        return questions

    questions = asked(80, slice(6)) + asked(HELD_OUT, slice(6, None))
    words = [*chain(*KINDS.values())]
    return _task(questions, _first_named(words), 8, form=_one_of(words))


def largest() -> Task:
    """The largest of five numbers."""
    rng, questions = random.Random(16), []
    for _ in range(100):
        drawn = rng.sample(range(10, 100), 5)
        text = f"Which number is the largest: {', '.join(map(str, drawn))}?"
        questions.append(Question(f"{text} Answer with the number alone.", str(max(drawn))))
    return _task(questions, _first_number_is, 6, form=r"\d+")


def last_word() -> Task:
    """The last word of a sentence, which is one of the places."""
    rng = random.Random(17)
    ask = 'Sentence: "{} {} near the {} {}." What is its last word? Answer with the word alone.'
    people, does = ["Ada", "Ben", "Cleo", "Dan"], ["waited", "slept", "played", "sang"]

    def asked(places: list[str], many: int) -> list[Question]:
        questions = []
        for number in range(many):
            place = places[number % len(places)]
            said = (rng.choice(people), rng.choice(does), rng.choice(["old", "big", "new"]), place)
            questions.append(Question(ask.format(*said), place))
        return questions

    questions = asked(PLACES[:13], 78) + asked(PLACES[13:], HELD_OUT)
    return _task(questions, _first_named(PLACES), 8, form=_one_of(PLACES))


def sequence() -> Task:
    """The number that comes after four with equal distances."""
    asked = [(first, gap) for first in range(1, 21) for gap in range(2, 8)]
    random.Random(18).shuffle(asked)
    questions = []
    for first, gap in asked:
        shown = ", ".join(str(first + gap * place) for place in range(4))
        text = f"Which number comes next: {shown}? Answer with the number alone."
        questions.append(Question(text, str(first + gap * 4)))
    return _task(questions, _first_number_is, 6, form=r"\d+")


SMALL: dict[str, Callable[[], Task]] = {
    "letters": letters,
    "sorting": sorting,
    "keys": keys,
    "calculator": calculator,
    "odd_word": odd_word,
    "largest": largest,
    "last_word": last_word,
    "sequence": sequence,
}
