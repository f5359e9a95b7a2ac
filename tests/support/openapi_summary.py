"""An OpenAPI document in short: what a client of it relies on, one line for each operation and
type.
"""

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("openapi_summary.json")


def summary(document: dict[str, Any]) -> dict[str, dict[str, list[str]]]:
    """``{"operations": {id: facts}, "schemas": {name: facts}}``. What is only added leaves every
    fact there was.
    """
    operations = {
        operation["operationId"]: sorted(_operation_facts(method, path, operation))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    schemas = {
        name: sorted(_schema_facts(schema))
        for name, schema in document["components"]["schemas"].items()
    }
    return {"operations": operations, "schemas": schemas}


def text(document: dict[str, Any]) -> str:
    """The summary as it is stored."""
    parts = []
    for part, entries in summary(document).items():
        lines = [
            f"  {json.dumps(name)}: {json.dumps(facts)}" for name, facts in sorted(entries.items())
        ]
        parts.append(f'"{part}": {{\n' + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _operation_facts(method: str, path: str, operation: dict[str, Any]) -> set[str]:
    facts = {f"is {method.upper()} {path}"}
    for parameter in operation.get("parameters", []):
        need = "needs" if parameter["required"] else "takes"
        facts.add(f"{need} {parameter['in']} {parameter['name']}")
    if body := operation.get("requestBody"):
        facts.add(f"needs body {_content(body)}")
    return facts | {
        f"returns {status} {_content(answer)}" for status, answer in operation["responses"].items()
    }


def _content(holder: dict[str, Any]) -> str:
    schema = holder.get("content", {}).get("application/json", {}).get("schema", {})
    return schema.get("$ref", "").rpartition("/")[2] or "nothing"


def _schema_facts(schema: dict[str, Any]) -> set[str]:
    facts = {f"is {value!r}" for value in schema.get("enum", [])}
    required = set(schema.get("required", []))
    return facts | {
        f"{'always' if name in required else 'maybe'} {name}"
        for name in schema.get("properties", {})
    }
