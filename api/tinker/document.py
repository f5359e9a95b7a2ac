"""``GET /api/v1/openapi.json``: the calls of the wire, from the rows of its table and the types of
their bodies.
"""

from typing import Any

from api.rest.authentication import KeyCaller
from api.rest.route import Route, RouteTable
from api.rest.schema import REF, wire_schema
from api.tinker.answers import Answer
from tinkerscript.wire.version import VERSION

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
        schemas: dict[str, Any] = {}
        paths: dict[str, dict[str, Any]] = {}
        for route in table:
            paths.setdefault(table.prefix + route.path, {})[route.method.lower()] = _operation(
                route, schemas
            )
        return Answer.of(
            {
                "openapi": "3.1.0",
                "info": {"title": "The Tinker wire", "version": VERSION},
                "paths": paths,
                "components": {"schemas": schemas, "securitySchemes": {"Key": KEY}},
            }
        )

    return document


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": "Served by a runtime."
        if route.is_async
        else (route.view.__doc__ or "").partition(": ")[2],
        "parameters": [
            {"in": "path", "name": name, "required": True, "schema": {"type": "string"}}
            for name in route.ids
        ],
        "security": [{"Key": []}],
        "responses": {
            "200": {"description": "A future" if route.promises else "Done"},
            "default": FAILURE,
        },
    }
    if route.body is not None and not route.is_async:
        name, schema = route.body.__name__, wire_schema(route.body, "validation")
        schemas |= schema.pop("$defs", {}) | {name: schema}
        content = {"application/json": {"schema": {"$ref": REF.format(model=name)}}}
        operation["requestBody"] = {"content": content, "required": True}
    return operation
