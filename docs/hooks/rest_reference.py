"""Writes pages of the reference from openapi.json when the documentation is built, so that they cannot fall behind.

mkdocs calls ``on_files`` before it reads the navigation; the pages exist in memory only.
"""

import json
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

DOCUMENT = Path(__file__).resolve().parents[2] / "openapi.json"
REST, SCHEMAS, OPTIONS = "reference/rest.md", "reference/schemas.md", "reference/options.md"
Json = dict[str, Any]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    document = json.loads(DOCUMENT.read_text())
    files.append(File.generated(config, REST, content=rest_page(document)))
    files.append(File.generated(config, SCHEMAS, content=schemas_page(document)))
    files.append(File.generated(config, OPTIONS, content=options_page(document)))
    return files


def rest_page(document: Json) -> str:
    """Every operation: what it does, its parameters, its body and its answer."""
    lines = [
        "# REST reference\n",
        "Made from `openapi.json`, which a running server gives at `/openapi.json` and shows, to be tried, at `/docs`."
        f" Send `Authorization: Bearer KEY`. Errors have the body [`ErrorBody`]({name_of(SCHEMAS)}#errorbody).\n",
    ]
    section = ""
    for path, methods in sorted(document["paths"].items()):
        if (first := path.split("/")[2]) != section:
            section = first
            lines.append(f"## {section.capitalize().replace('-', ' ')}\n")
        for method, operation in methods.items():
            lines += operation_lines(method.upper(), path, operation)
    return "\n".join(lines)


def operation_lines(method: str, path: str, operation: Json) -> list[str]:
    lines = [
        f"### `{method} {path}` {{ #{operation['operationId']} }}\n",
        operation["summary"] + "\n",
    ]
    description = operation.get("description", "")
    if description and description != operation["summary"]:
        lines.append(description + "\n")
    parameters = operation.get("parameters", [])
    if parameters:
        lines += ["| parameter | in | type | |", "| --- | --- | --- | --- |"]
        for parameter in parameters:
            note = parameter.get("description", "") + (
                " Required." if parameter.get("required") else ""
            )
            name, kind = parameter["name"], type_of(parameter["schema"])
            lines.append(f"| `{name}` | {parameter['in']} | {kind} | {cell(note)} |")
        lines.append("")
    if body := operation.get("requestBody"):
        lines.append(f"Body: {content_of(body)}\n")
    for status, answer in operation["responses"].items():
        if status != "default":
            lines.append(f"Answer {status}: {content_of(answer)}\n")
    return lines


def schemas_page(document: Json) -> str:
    """Every JSON object of the operations, with its fields."""
    lines = [
        "# REST schemas\n",
        "What the operations of the [REST reference](rest.md) take and return.\n",
    ]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += [f"## {name}\n", text_of(schema.get("description", "")), ""]
        if "enum" in schema:
            lines.append("One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + ".\n")
        lines += field_lines(schema, page="")
    return "\n".join(lines)


def options_page(document: Json) -> str:
    """What a user may set about a session."""
    lines = [
        "# Session options\n",
        "`TinkerScript(base_model, option=value)`, or `config` of [`SessionCreate`](schemas.md#sessioncreate). An"
        " unknown option is refused, and so is one that another option makes meaningless. The reason of each default"
        " stands in `sdk/tinkerscript/wire/config.py`.\n",
        *field_lines(document["components"]["schemas"]["SessionConfig"]),
    ]
    return "\n".join(lines)


def field_lines(schema: Json, page: str | None = None) -> list[str]:
    """A table of the fields of an object; nothing for what has none."""
    if not schema.get("properties"):
        return []
    lines = ["| field | type | default | |", "| --- | --- | --- | --- |"]
    for field, definition in schema["properties"].items():
        default = "required" if field in schema.get("required", []) else default_of(definition)
        note = cell(
            " ".join(filter(None, [definition.get("description", ""), bounds_of(definition)]))
        )
        lines.append(f"| `{field}` | {type_of(definition, page)} | {default} | {note} |")
    return [*lines, ""]


def content_of(body: Json) -> str:
    kinds = [
        f"`{kind}` {type_of(media.get('schema', {}))}"
        for kind, media in body.get("content", {}).items()
    ]
    return ", ".join(kinds) or "no body"


def type_of(schema: Json, page: str | None = None) -> str:
    """A schema as a word, with a link where it has a name of its own."""
    page = name_of(SCHEMAS) if page is None else page
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}]({page}#{name.lower()})"
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(type_of(choice, page) for choice in schema[several]))
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}), page)}"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    return str(schema.get("type") or "any")


def bounds_of(schema: Json) -> str:
    words = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    places = [schema, *schema.get("anyOf", [])]
    return ", ".join(
        f"{sign} {place[key]}" for place in places for key, sign in words.items() if key in place
    )


def default_of(schema: Json) -> str:
    default = schema.get("default")
    return "its own defaults" if isinstance(default, dict) else f"`{json.dumps(default)}`"


def cell(text: str) -> str:
    return text_of(text).replace("\n", " ").replace("|", "\\|")


def text_of(text: str) -> str:
    # ``name`` is how docstrings write it; angle brackets would be read as HTML.
    return text.replace("``", "`").replace("<", "&lt;")


def name_of(path: str) -> str:
    return path.rpartition("/")[2]
