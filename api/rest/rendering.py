"""How results are written: JSON, or for a signed-in person's browser a page that shows it and can send requests."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from django import forms
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer, BrowsableAPIRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from api.rest.authentication import Caller
from console.errors import DomainError


class JsonText(str):
    """JSON that is written already: kept under an Idempotency-Key, or a gateway's."""


class JsonRenderer(BaseRenderer):
    """A pydantic model as JSON."""

    media_type = "application/json"
    format = "json"
    charset = None  # JSON is UTF-8: the media type has no such parameter
    render_style = "text"

    def render(
        self,
        data: BaseModel | JsonText | None,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        if data is None:
            return b""
        return (data if isinstance(data, str) else data.model_dump_json()).encode()


class PageRenderer(BrowsableAPIRenderer):
    """Django REST framework's page of an endpoint: its bundled scripts and styles, and no inline ones."""

    template = "api/endpoint.html"

    def get_context(self, data: Any, accepted_media_type: str | None, renderer_context: Any) -> dict[str, Any]:
        return super().get_context(data, accepted_media_type, renderer_context) | {"code_style": ""}

    def get_content(self, renderer: Any, data: Any, accepted_media_type: str | None, renderer_context: Any) -> str:
        text = JsonRenderer().render(data).decode()
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False) if text else ""

    def show_form_for_method(self, view: APIView, method: str, request: Request, obj: Any) -> bool:
        try:
            return bool(super().show_form_for_method(view, method, request, obj))
        except DomainError:  # the person's role does not allow it
            return False

    def get_raw_data_form(self, data: Any, view: Any, method: str, request: Request) -> forms.Form | None:
        form = super().get_raw_data_form(data, view, method, request)
        if form is not None and (body := view.routes[method].body) is not None:
            form.fields["_content"].initial = json.dumps(_example(body), indent=2)
        return form


class HtmlForPeople(BaseContentNegotiation):
    """The page for a person with the console's cookie whose browser asks for HTML; JSON for every other client."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser:
        return next(iter(parsers))

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        caller = vars(request).get("_auth")  # where authentication failed there is none, and it is not tried again
        is_person = isinstance(caller, Caller) and caller.key is None
        as_json, as_page = renderers
        renderer = as_page if is_person and "text/html" in request.META.get("HTTP_ACCEPT", "") else as_json
        return renderer, renderer.media_type


def _example(model: type[BaseModel]) -> dict[str, Any]:
    """A body to start from: the required fields, empty."""
    return {name: "" for name, field in model.model_fields.items() if field.default is PydanticUndefined}
