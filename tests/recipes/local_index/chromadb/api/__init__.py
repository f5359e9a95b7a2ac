"""The name under which the cookbook knows the client."""

from chromadb import AsyncClient as AsyncClientAPI

__all__ = ["AsyncClientAPI"]
