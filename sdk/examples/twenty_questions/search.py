"""The search tool of the game: an index of the noun list that needs no model, or a model that plays
a search engine.

The player calls it as a tool. What is found goes back to it as the tool's message, which is never
trained.
"""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from answerer import CATEGORIES, by_rules
from openai import OpenAI

from tinkerscript.datasets import rows_read

NOUNS = Path(__file__).with_name("nouns.csv")
MAX_QUERY, MAX_FOUND = 500, 8  # characters, nouns
Search = Callable[[str], str]
TOOL = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Look nouns up, for example: animal that starts with o",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
        },
    },
}


def by_index(query: str) -> str:
    """Up to eight nouns of which each part of the query is true: category, letters, length, as the
    rules know them.
    """
    found = ", ".join(nouns_of(query[:MAX_QUERY])[:MAX_FOUND])
    return found or f"nothing; ask for one of {', '.join(CATEGORIES)}, for letters or a length"


def nouns_of(query: str) -> list[str]:
    """Every noun of which all parts of the query are true."""
    parts = [
        part for part in re.split(r"\b(?:and|that|which)\b|[,;]", query.lower()) if part.strip()
    ]
    return [
        row["answer"]
        for row in _nouns()
        if parts and all(by_rules(part, row).said == "yes" for part in parts)
    ]


def by_model(client: OpenAI, model: str) -> Search:
    """Asks ``model``, which plays a search engine; it does not know the secret."""

    def search(query: str) -> str:
        messages = [
            {
                "role": "system",
                "content": "You are a search engine. Reply with the best result in two sentences.",
            },
            {"role": "user", "content": query[:MAX_QUERY]},
        ]
        reply = client.chat.completions.create(model=model, messages=messages, temperature=0.0)
        return reply.choices[0].message.content or "nothing"

    return search


@cache
def _nouns() -> list[dict[str, str]]:
    return rows_read(NOUNS, columns=["answer", "category"])
