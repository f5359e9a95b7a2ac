"""The OpenAPI document, from the routes and the wire types. ``python -m api.openapi`` writes it to
the repository.
"""

import json
import re
from pathlib import Path
from typing import Any

from tinkerscript.wire.events import StepMetrics

FILE = Path(__file__).resolve().parent.parent / "openapi.json"


def document() -> dict[str, Any]:
    """The document as a dict. Any response that is not the one listed is an ErrorBody."""
    # They import Django's models: not before Django is set up.
    from django.urls import include, path
    from drf_spectacular.generators import SchemaGenerator

    from api.rest.endpoint import url_patterns
    from api.rest.schema import SECURITY_SCHEMES, wire_schema
    from api.routes import api

    generator = SchemaGenerator(patterns=[path("v1/", include(url_patterns(api)))])
    schema = generator.get_schema(public=True)
    metrics = wire_schema(StepMetrics, "serialization")  # `data` of a `metric` Event
    schemas = schema["components"]["schemas"] | metrics.pop("$defs", {}) | {"StepMetrics": metrics}
    schema["components"] = {"schemas": schemas, "securitySchemes": SECURITY_SCHEMES}
    return json.loads(json.dumps(schema), object_hook=_unwrapped)


def _unwrapped(part: dict[str, Any]) -> dict[str, Any]:
    """A part whose description has a line for each paragraph, however its docstring is wrapped."""
    if isinstance(text := part.get("description"), str):
        part["description"] = re.sub(r"(?<=\S)\n(?=[^\s\-*|>])", " ", text)
    return part


def text() -> str:
    """The document as it is committed: the same text for the same routes."""
    return json.dumps(document(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    django.setup()
    FILE.write_text(text())
