"""Embeddings without a network, for the cookbook's search_tool: the calls of ``google.genai`` that
it makes.
"""

from types import SimpleNamespace
from typing import Any

from chromadb import letters_counted


class Client:
    """``client.aio.models.embed_content``."""

    def __init__(self, **_options: Any) -> None:
        self.aio = SimpleNamespace(models=self)

    async def embed_content(self, *, contents: list[str], **_options: Any) -> SimpleNamespace:
        """An embedding of each text."""
        return SimpleNamespace(
            embeddings=[SimpleNamespace(values=letters_counted(text)) for text in contents]
        )
