"""What drf-spectacular asks about an operation: all of it stands in the row of the table of
routes.
"""

from http import HTTPStatus
from inspect import cleandoc
from typing import Any

from drf_spectacular.drainage import set_override
from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.utils import Direction, OpenApiResponse
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core.core_schema import WithDefaultSchema

from api.rest.permissions import RequireLease, RequireShare
from api.rest.route import Route
from tinkerscript.wire.errors import ErrorBody

Json = dict[str, Any]

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


class RouteSchema(AutoSchema):
    """Describes one operation. Runtimes' routes are left out."""

    @property
    def route(self) -> Route:
        view: Any = self.view  # an Endpoint
        return view.routes[self.method]

    def is_excluded(self) -> bool:
        return isinstance(self.route.access, RequireLease)

    def get_operation(self, *args: Any) -> Json | None:
        operation = super().get_operation(*args)
        return {"parameters": []} | operation if operation else None

    def get_operation_id(self) -> str:
        return self.route.view.__name__

    def get_summary(self) -> str:
        text = self.route.view.__doc__ or self.route.view.__name__
        return " ".join(text.partition("\n\n")[0].split())

    def get_description(self) -> str:  # type: ignore[override]  # drf-spectacular's own differs from DRF's so
        """What the docstring has beside the summary."""
        return cleandoc((self.route.view.__doc__ or "").partition("\n\n")[2])

    def get_tags(self) -> list[str]:
        return []

    def get_auth(self) -> list[Json]:
        is_shared = isinstance(self.route.access, RequireShare)
        return [{name: []} for name in SECURITY_SCHEMES if (name == "ShareLink") is is_shared]

    def get_request_serializer(self) -> Any:
        return self.route.body

    def get_response_serializers(self) -> Any:
        """The one result, and for every other status the error body."""
        phrase = HTTPStatus(self.route.status).phrase
        return {
            str(self.route.status): OpenApiResponse(self.route.result, description=phrase),
            "default": OpenApiResponse(ErrorBody, description="Refused or failed"),
        }

    def _get_parameters(self) -> list[Json]:
        route = self.route
        found = [
            {"in": "path", "name": name, "required": True, "schema": {"type": "string"}}
            for name in route.ids
        ]
        if route.query is not None:
            found += [
                _query_parameter(name, schema)
                for name, schema in self._query_properties(route.query).items()
            ]
        return [*found, IDEMPOTENCY_KEY] if route.method == "POST" else found

    def _query_properties(self, query: type[BaseModel]) -> Json:
        schema = wire_schema(query, "validation")
        definitions_register(self, schema)
        return schema.get("properties", {})

    def _get_request_body(self, direction: Direction = "request") -> Json | None:
        body = super()._get_request_body(direction)
        return body | {"required": True} if body else None  # also where every field has a default


class WireTypes(OpenApiSerializerExtension):
    """A pydantic model as a component: as it is read where it is a request's body, as it is written
    elsewhere.
    """

    target_class = "pydantic.BaseModel"
    match_subclasses = True
    priority = 1  # before drf-spectacular's own, which describes every model as it is written

    def get_name(self, auto_schema: AutoSchema, direction: Direction) -> str:
        # it may be there as a part of another type
        set_override(self.target, "suppress_collision_warning", True)
        return self.target.__name__

    def map_serializer(self, auto_schema: AutoSchema, direction: Direction) -> Json:
        schema = wire_schema(
            self.target, "validation" if direction == "request" else "serialization"
        )
        definitions_register(auto_schema, schema)
        return schema


def wire_schema(model: type[BaseModel], mode: JsonSchemaMode) -> Json:
    """The JSON schema of a model, its parts in ``$defs``."""
    return model.model_json_schema(ref_template=REF, schema_generator=WireJsonSchema, mode=mode)


def definitions_register(auto_schema: AutoSchema, schema: Json) -> None:
    """Move the types that ``schema`` refers to into the document's components."""
    for name, definition in schema.pop("$defs", {}).items():
        component = ResolvedComponent(
            name=name, type=ResolvedComponent.SCHEMA, object=name, schema=definition
        )
        auto_schema.registry.register_on_missing(component)


def _query_parameter(name: str, schema: Json) -> Json:
    described = {"description": schema.pop("description")} if "description" in schema else {}
    return {"in": "query", "name": name, "required": False, "schema": schema} | described
