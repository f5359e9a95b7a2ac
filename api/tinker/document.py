"""``GET /api/v1/openapi.json``: the calls of the wire, from the rows of its table and the types of
their bodies.
"""

from typing import Any

from api.openapi import document_of, path_parameters, request_body
from api.rest.authentication import KeyCaller
from api.rest.route import Route, RouteTable
from api.tinker.answers import Answer
from tinkerscript.wire.version import VERSION

INFO = {"title": "The Tinker wire", "version": VERSION}
KEY = {
    "type": "apiKey",
    "in": "header",
    "name": "X-API-Key",
    "description": "An API key made in the console.",
}
FAILURE = {"description": "Refused or failed: JSON with `detail`."}


def document_view(table: RouteTable) -> Any:
    """The view that returns the document of ``table``."""

    def document(caller: KeyCaller) -> Answer:
        """``GET /openapi.json``: this document."""
        return Answer.of(document_of(table, INFO, {"Key": KEY}, _operation))

    return document


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": "Served by a runtime."
        if route.is_async
        else (route.view.__doc__ or "").partition(": ")[2],
        "parameters": path_parameters(route),
        "security": [{"Key": []}],
        "responses": {
            "200": {"description": "A future" if route.promises else "Done"},
            "default": FAILURE,
        },
    }
    if route.body is not None and not route.is_async:
        operation["requestBody"] = request_body(route.body, schemas)
    return operation
