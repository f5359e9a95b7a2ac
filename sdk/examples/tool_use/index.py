"""A search over a file of articles: those that share the rarest words with the query come first."""

import json
import math
import re
from collections import Counter
from pathlib import Path

ARTICLES = Path(__file__).with_name("index.jsonl")
FOUND = 2


class Index:
    """``search("lighthouse of Varnes")`` returns the texts of the best articles, or says that there
    are none.
    """

    def __init__(self, path: Path = ARTICLES) -> None:
        self._texts = [
            json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()
        ]
        self._words = [set(words(text)) for text in self._texts]
        self._articles_with = Counter(word for some in self._words for word in some)

    def search(self, query: str) -> str:
        scored = [(self._score(query, some), -at) for at, some in enumerate(self._words)]
        best = [-at for score, at in sorted(scored, reverse=True)[:FOUND] if score > 0]
        return "\n".join(self._texts[at] for at in best) or "No article was found."

    def _score(self, query: str, article: set[str]) -> float:
        count = len(self._texts)
        return sum(
            math.log(count / self._articles_with[word]) for word in set(words(query)) & article
        )


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())
