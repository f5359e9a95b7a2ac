"""How results are written: as JSON, whatever a client accepts."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request


class JsonText(str):
    """JSON that is written already: kept under an Idempotency-Key, or a gateway's."""


class JsonRenderer(BaseRenderer):
    """A pydantic model as JSON."""

    media_type = "application/json"
    format = "json"
    charset = None  # JSON is UTF-8: the media type has no such parameter

    def render(
        self,
        data: BaseModel | JsonText | None,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        if data is None:
            return b""
        return (data if isinstance(data, str) else data.model_dump_json()).encode()


class JsonAlways(BaseContentNegotiation):
    """The one parser and the one renderer."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser:
        return next(iter(parsers))

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        return next(iter(renderers)), JsonRenderer.media_type
