"""A local index in the place of a Chroma server: the calls of ``chromadb`` that the cookbook's
search_tool makes.

An embedding is a count of letters, and what is found is what has the nearest count.
"""

import math
from typing import Any

PASSAGES = [f"The number after {number} is {number + 1}." for number in range(100)]


async def AsyncHttpClient(**_where: Any) -> "AsyncClient":  # noqa: N802, the name is Chroma's
    """The client of an index that is in this process."""
    return AsyncClient()


class AsyncClient:
    """Has one collection, whatever it is called."""

    async def get_collection(self, _name: str) -> "Collection":
        """The passages."""
        return Collection()


class Collection:
    """PASSAGES, by the letters in them."""

    async def query(
        self, query_embeddings: list[list[float]], n_results: int
    ) -> dict[str, list[list[str]]]:
        """The nearest passages of each query."""
        return {"documents": [self._nearest(each)[:n_results] for each in query_embeddings]}

    def _nearest(self, embedding: list[float]) -> list[str]:
        return sorted(PASSAGES, key=lambda passage: math.dist(embedding, letters_counted(passage)))


def letters_counted(text: str) -> list[float]:
    """How often each printable letter of ASCII is in it."""
    return [float(text.count(chr(code))) for code in range(32, 127)]
