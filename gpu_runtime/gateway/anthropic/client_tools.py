"""Tools of Anthropic's own types that the client runs: to the model they are functions.

Their calls have the form of any other tool's. Names, options and inputs: Anthropic's pages "Bash
tool", "Text editor tool" and "Memory tool" (docs.anthropic.com).
"""

from typing import Any

SHOWN = "client tools"  # among a call's labels: the types, as they were sent
# of no effect on what the model reads: how much of a file the client returns
OF_CLIENT = frozenset({"max_characters"})


def _schema(required: tuple[str, ...] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _one_of(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "integer"}
RANGE = {"type": "array", "items": NUMBER, "description": "First and last line."}
BASH = _schema(command=TEXT, restart={"type": "boolean"})
EDITS = {
    "path": TEXT,
    "file_text": TEXT,
    "old_str": TEXT,
    "new_str": TEXT,
    "insert_line": NUMBER,
    "view_range": RANGE,
}
EDITOR = _schema(
    ("command", "path"), command=_one_of("view", "create", "str_replace", "insert"), **EDITS
)
EDITOR_INSERTS = _schema(("command", "path"), **EDITOR["properties"], insert_text=TEXT)
EDITOR_UNDOES = _schema(
    ("command", "path"),
    **EDITOR["properties"]
    | {"command": _one_of("view", "create", "str_replace", "insert", "undo_edit")},
)
MEMORY = _schema(
    ("command",),
    **EDITS
    | {
        "command": _one_of("view", "create", "str_replace", "insert", "delete", "rename"),
        "insert_text": TEXT,
        "old_path": TEXT,
        "new_path": TEXT,
    },
)
RUNS = "Runs a command in a persistent shell of the user's machine and returns its output."
READS = "Views, creates and edits text files of the user's machine."
KEEPS = "Views, creates and edits files under /memories, which later conversations have too."
# Type -> what the model reads of it, and the input that the client takes.
CLIENT_TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "bash_20241022": (RUNS, BASH),
    "bash_20250124": (RUNS, BASH),
    "text_editor_20241022": (READS, EDITOR_UNDOES),
    "text_editor_20250124": (READS, EDITOR_UNDOES),
    "text_editor_20250429": (READS, EDITOR),
    "text_editor_20250728": (READS, EDITOR_INSERTS),
    "memory_20250818": (KEEPS, MEMORY),
}


def show_client_tools(body: dict[str, Any]) -> dict[str, Any]:
    """Put a function into the place of each such tool of ``body``; the label of what was sent."""
    tools: Any = body.get("tools")
    found: list[dict[str, Any]] = []
    for number, tool in enumerate(tools if isinstance(tools, list) else []):
        known = CLIENT_TOOLS.get(str(tool.get("type"))) if isinstance(tool, dict) else None
        if known is None:
            continue
        description, schema = known
        found.append(dict(tool))
        kept = {name: value for name, value in tool.items() if name not in OF_CLIENT | {"type"}}
        tools[number] = {"description": description, "input_schema": schema} | kept
    return {SHOWN: found} if found else {}
