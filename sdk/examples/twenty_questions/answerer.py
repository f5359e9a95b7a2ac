"""Who answers the player's questions: fixed rules that need no model, or a model behind any OpenAI
endpoint.

Neither is ever trained: the rules sample nothing, and the model is asked with a key of its own, not
the episode's.
"""

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from openai import OpenAI

Secret = dict[str, str]  # a row of nouns.csv: answer, category


@dataclass(frozen=True)
class Answer:
    """``said`` is "yes", "no" or "n/a"; ``correct`` means that the question named the secret.

    ``is_read`` is False where a model's answer was in another form: the player is told "n/a" then.
    """

    said: str
    correct: bool = False
    is_read: bool = True


Answerer = Callable[[str, Secret], Answer]


def by_rules(question: str, secret: Secret) -> Answer:
    """Answers what can be known from the row alone: the category, the letters, the length, the noun
    itself.

    ``"Is it an animal?"``, ``"Does it start with o?"``, ``"Does it contain the letter t?"``, ``"Is
    it longer than 5 letters?"``, ``"Is it an otter?"``. Anything else is "n/a".
    """
    noun, category = secret["answer"].lower(), secret["category"].lower()
    asked = " ".join(re.findall(r"[a-z]+|\d+", question.lower()))
    if re.search(rf"\b{re.escape(noun)}s?\b", asked):
        return Answer("yes", correct=True)
    for known in CATEGORIES:
        if re.search(rf"\b{known}s?\b", asked):
            return _yes_if(known == category)
    if found := re.search(
        r"(?:start|starts|begin|begins) with (?:the letter )?(?:an? )?([a-z])\b", asked
    ):
        return _yes_if(noun.startswith(found[1]))
    if found := re.search(
        r"(?:contain|contains|have|has|include|includes) (?:the letter|an?) ([a-z])\b", asked
    ):
        return _yes_if(found[1] in noun)
    if found := re.search(r"(longer|shorter|more|fewer|less) than (\d{1,3})", asked):
        longer = found[1] in ("longer", "more")
        return _yes_if(len(noun) > int(found[2]) if longer else len(noun) < int(found[2]))
    return Answer("n/a")


CATEGORIES = ("animal", "food", "tool", "place", "instrument", "vehicle", "clothing", "profession")


def answerer_client() -> OpenAI:
    """The answerer's endpoint: ANSWERER_BASE_URL and ANSWERER_API_KEY, else OPENAI_BASE_URL and
    OPENAI_API_KEY.
    """
    if not (url := os.environ.get("ANSWERER_BASE_URL")):
        return OpenAI()
    if not (key := os.environ.get("ANSWERER_API_KEY")):  # OPENAI_API_KEY is of another endpoint
        raise SystemExit("ANSWERER_BASE_URL needs ANSWERER_API_KEY.")
    return OpenAI(base_url=url, api_key=key)


def by_model(client: OpenAI, model: str) -> Answerer:
    """Asks ``model``. What it returns has to be JSON of the fields of Answer, else the turn counts
    as unread.
    """

    def answer(question: str, secret: Secret) -> Answer:
        reply = client.chat.completions.create(
            model=model,
            messages=[
                {"role": "system", "content": JUDGE.format(**secret)},
                {"role": "user", "content": question},
            ],
            temperature=0.0,
            response_format={"type": "json_object"},
        )
        return parsed(reply.choices[0].message.content or "")

    return answer


JUDGE = (
    "You answer in a game of twenty questions. The secret is {answer} ({category}). Reply with "
    "JSON alone: "
    '{{"answer": "yes" or "no" or "n/a", "correct": true only if the question names the secret '
    "itself}}"
)


def parsed(text: str) -> Answer:
    try:
        said = json.loads(text)
        if said["answer"] in ("yes", "no", "n/a") and isinstance(said.get("correct", False), bool):
            return Answer(said["answer"], said.get("correct", False))
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    return Answer("n/a", is_read=False)


def _yes_if(true: bool) -> Answer:
    return Answer("yes" if true else "no")
