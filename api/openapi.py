"""The OpenAPI document, from the routes and the wire types. ``python -m api.openapi`` writes it to the repository."""

import json
from pathlib import Path
from typing import Any

from tinkerscript.wire.errors import ErrorBody
from tinkerscript.wire.events import StepMetrics

FILE = Path(__file__).resolve().parent.parent / "openapi.json"
SECURITY_SCHEMES = {
    "ApiKey": {"type": "http", "scheme": "bearer", "description": "An API key made in the console."},
    "ConsoleSession": {
        "type": "apiKey",
        "in": "cookie",
        "name": "sessionid",
        "description": "The console's sign-in; writes carry X-CSRFToken, X-Project-Id chooses the project.",
    },
}
IDEMPOTENCY_KEY = {
    "in": "header",
    "name": "Idempotency-Key",
    "required": False,
    "description": "A word of the caller's choice: a repeated request with the same one is answered as the first was.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}
REF = "#/components/schemas/{model}"


def document() -> dict[str, Any]:
    """The document as a dict. Any answer that is not the one listed is an ErrorBody."""
    from api.urls import api  # the routes import Django's models: not before Django is set up

    schema = json.loads(json.dumps(api.get_openapi_schema(path_prefix="/v1")))
    schemas = schema["components"]["schemas"]
    for model in (ErrorBody, StepMetrics):  # the latter is the `data` of an Event of kind `metric`
        definition = model.model_json_schema(ref_template=REF, mode="serialization")
        schemas |= definition.pop("$defs", {}) | {model.__name__: definition}
    schema["components"] = {"schemas": schemas, "securitySchemes": SECURITY_SCHEMES}
    failed = {
        "description": "Refused or failed",
        "content": {"application/json": {"schema": {"$ref": REF.format(model="ErrorBody")}}},
    }
    for methods in schema["paths"].values():
        for method, operation in methods.items():
            operation["parameters"] += [IDEMPOTENCY_KEY] if method == "post" else []
            operation["security"] = [{name: []} for name in SECURITY_SCHEMES]
            operation["responses"]["default"] = failed
    return schema


def text() -> str:
    """The document as it is committed: the same text for the same routes."""
    return json.dumps(document(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    django.setup()
    FILE.write_text(text())
