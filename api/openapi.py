"""The OpenAPI documents of REST and of the Tinker wire, from the rows of their tables of routes and
the types of the wire. ``python -m api.openapi`` writes that of REST to the repository.
"""

import json
import re
from collections.abc import Callable
from http import HTTPStatus
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core.core_schema import WithDefaultSchema

from tinkerscript.wire.errors import ErrorBody
from tinkerscript.wire.events import StepMetrics

if TYPE_CHECKING:
    from api.rest.route import Route, RouteTable

Json = dict[str, Any]

FILE = Path(__file__).resolve().parent.parent / "openapi.json"
INFO = {
    "title": "TinkerScript",
    "description": "Full-weight reinforcement learning of language models, as a service.",
    "version": "1",
}
REF = "#/components/schemas/{model}"
SECURITY_SCHEMES: dict[str, Json] = {
    "ApiKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key made in the console.",
    },
    "ConsoleSession": {
        "type": "apiKey",
        "in": "cookie",
        "name": "sessionid",
        "description": "The console's sign-in; writes carry X-CSRFToken, X-Project-Id chooses the "
        "project.",
    },
    "ShareLink": {
        "type": "http",
        "scheme": "bearer",
        "description": "What follows # in a public link to a run.",
    },
}
IDEMPOTENCY_KEY: Json = {
    "in": "header",
    "name": "Idempotency-Key",
    "required": False,
    "description": "A word of the caller's choice: a repeated request with the same one gets the "
    "first one's response.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}


def text() -> str:
    """REST's document as it is committed: the same text for the same routes."""
    return json.dumps(document(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def document() -> Json:
    """REST's document. Any response that is not the one listed is an ErrorBody."""
    from api.routes import api  # it imports Django's models: not before Django is set up

    made = document_of(api, INFO, SECURITY_SCHEMES, _operation)
    # `data` of a `metric` Event
    component(StepMetrics, "serialization", made["components"]["schemas"])
    return json.loads(json.dumps(made), object_hook=_unwrapped)


def document_of(
    table: "RouteTable",
    info: Json,
    security: Json,
    describe: Callable[["Route", Json], Json | None],
) -> Json:
    """The document of a table. ``describe`` makes an operation of a row, None of one that is left
    out, and adds the types that it names to the schemas.
    """
    paths: dict[str, Json] = {}
    schemas: Json = {}
    for route in table:
        if (operation := describe(route, schemas)) is not None:
            paths.setdefault(table.prefix + route.path, {})[route.method.lower()] = operation
    components = {"schemas": schemas, "securitySchemes": security}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": components}


def path_parameters(route: "Route") -> list[Json]:
    """The names in the path."""
    return [
        {"in": "path", "name": name, "required": True, "schema": {"type": "string"}}
        for name in route.ids
    ]


def request_body(model: type[BaseModel], schemas: Json) -> Json:
    """Required also where every field has a default."""
    return _content(component(model, "validation", schemas)) | {"required": True}


def component(model: type[BaseModel], mode: JsonSchemaMode, schemas: Json) -> Json:
    """A reference to a type, which ``schemas`` has from now on with its parts: as it is read where
    it is a request's body, as it is written elsewhere; the first of one name stays.
    """
    schema = _schema(model, mode)
    parts = schema.pop("$defs", {})
    for name, part in {model.__name__: schema, **parts}.items():
        schemas.setdefault(name, part)
    return {"$ref": REF.format(model=model.__name__)}


def _operation(route: "Route", schemas: Json) -> Json | None:
    if route.access.grants == "session":  # a runtime's
        return None
    parameters = path_parameters(route)
    if route.query is not None:
        query = _schema(route.query, "validation")
        for name, part in query.pop("$defs", {}).items():
            schemas.setdefault(name, part)
        for name, schema in query.get("properties", {}).items():
            about = {"description": schema.pop("description")} if "description" in schema else {}
            parameters.append(
                {"in": "query", "name": name, "required": False, "schema": schema} | about
            )
    summary, _, more = (route.view.__doc__ or route.view.__name__).partition("\n\n")
    is_shared = route.access.grants == "link"
    operation: Json = {
        "operationId": route.view.__name__,
        "summary": " ".join(summary.split()),
        "parameters": parameters + ([IDEMPOTENCY_KEY] if route.method == "POST" else []),
        "security": [{name: []} for name in SECURITY_SCHEMES if (name == "ShareLink") is is_shared],
    }
    if more := cleandoc(more):
        operation["description"] = more
    if route.body is not None:
        operation["requestBody"] = request_body(route.body, schemas)
    answer: Json = {"description": HTTPStatus(route.status).phrase}
    if route.result is not None:
        answer |= _content(component(route.result, "serialization", schemas))
    failure = _content(component(ErrorBody, "serialization", schemas))
    operation["responses"] = {
        str(route.status): answer,
        "default": {"description": "Refused or failed"} | failure,
    }
    return operation


def _content(schema: Json) -> Json:
    return {"content": {"application/json": {"schema": schema}}}


class WireJsonSchema(GenerateJsonSchema):
    """Pydantic's, without defaults of null, which clients' generators take for values, and without
    titles of fields, which repeat their names; a reference stands alone.
    """

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        found = super().default_schema(schema)
        if "default" in found and found["default"] is None:
            del found["default"]
        return {"allOf": [{"$ref": found.pop("$ref")}], **found} if "$ref" in found else found


def _schema(model: type[BaseModel], mode: JsonSchemaMode) -> Json:
    return model.model_json_schema(ref_template=REF, schema_generator=WireJsonSchema, mode=mode)


def _unwrapped(part: Json) -> Json:
    """A part whose description has a line for each paragraph, however its docstring is wrapped."""
    if isinstance(words := part.get("description"), str):
        part["description"] = re.sub(r"(?<=\S)\n(?=[^\s\-*|>])", " ", words)
    return part


if __name__ == "__main__":
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    django.setup()
    FILE.write_text(text())
