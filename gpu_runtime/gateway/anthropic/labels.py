"""The labels of Anthropic's Messages dialect, with the source of every line, the types of its
tools, and those of its own types that the client runs: to the model they are functions.

API: Anthropic's reference, "Create a Message", and the pages of its features (docs.anthropic.com).
Claude Code: requests of 2.1.332 as recorded (tests/gpu_runtime/gateway/recorded/claude_code.json).
Calls of the client's tools have the form of any other tool's. Names, options and inputs:
Anthropic's pages "Bash tool", "Text editor tool" and "Memory tool".
"""

from typing import Any

from gpu_runtime.gateway.bodies import Dialect
from gpu_runtime.gateway.openai.chat_labels import (
    CONTEXT_MANAGEMENT,
    ENGINE_NEUTRAL,
    THINKING,
    allows_direct,
)
from gpu_runtime.generation.labels import Label, Table, ToolTypes

NO_BETAS = "In Claude Code set CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS=1; else leave it out."
DIRECT = ({"type": "direct"},)


def cites(citations: Any) -> bool:
    """Whether ``citations`` are those of an earlier answer, whose text is whole without them; none
    are made here."""
    return isinstance(citations, list) or citations == {"enabled": False}


def runs_nothing(container: Any) -> bool:
    """Whether a container brings no skills: those of Anthropic's server, which run there."""
    return not (isinstance(container, dict) and container.get("skills"))


MESSAGES_LABELS: Table = (
    *ENGINE_NEUTRAL,
    *THINKING,
    Label("service_tier", "API, service_tier: price and speed", ("auto", "standard_only")),
    Label("metadata", "API, metadata: user_id; its agent names the call's agent", stays=True),
    Label("inference_geo", "API, inference_geo: where it is computed"),
    Label("speed", "API, fast mode: price and speed", ("standard", "fast")),
    Label("billing_policy", "API: who pays"),
    Label("user_profile_id", "API: on whose behalf"),
    Label("workspace_id", "API: which workspace pays"),
    Label(
        "container",
        "API, containers of server tools, which do not run here",
        runs_nothing,
        "Nothing of a skill runs here: leave its skills out.",
    ),
    Label(
        "compaction",
        "API, compaction",
        (),
        "Nothing is taken out of a conversation here: let the client send a shorter one.",
    ),
    Label("fallback_credit_token", "API: what a refusal's second try costs"),
    Label("fallbacks", "API: models for what is declined by policy. Nothing is, here"),
    Label("diagnostics", "API: why a cache was missed. Claude Code 2.1.332 has it"),
    Label("safeguards", "Claude Code 2.1.332 has it: for classifiers, which do not run here"),
    Label("tags", "Claude Code 2.1.332 has it: who pays"),
    Label("program_use_case_id", "Claude Code 2.1.332 has it: what it is used for"),
    Label(
        "output_config.task_budget",
        "API, task budgets: no model here reads one, and max_tokens alone bounds an answer",
    ),
    Label(
        "output_format",
        "API, before output_config",
        (),
        "It has become output_config: send output_config.format.",
    ),
    CONTEXT_MANAGEMENT,
    Label(
        "messages.*.clear_at",
        "API, messages of the system that leave the conversation again",
        ("never",),
        NO_BETAS,
    ),
    Label(
        "messages.*.output_config",
        "API, effort of one turn",
        ({}, {"effort": None}),
        NO_BETAS,
    ),
    Label(
        "mcp_servers",
        "API, MCP connector",
        ([],),
        "Let the client call the server itself, and send its tools.",
    ),
    Label(
        "cache_control", "API, prompt caching: chooses what to cache. Claude Code 2.1.332 sends it"
    ),
    Label("system.*.cache_control", "the same, of a block"),
    Label("tools.*.cache_control", "the same, of a tool"),
    Label("messages.*.content.*.cache_control", "the same, of a block"),
    Label(
        "messages.*.content.*.caller",
        "API, programmatic calls: an echo of a call of the model's",
        DIRECT,
    ),
    Label(
        "messages.*.content.*.toolset_name",
        "API, an echo of a call of a set of tools, and its result: the tool has its own name",
    ),
    Label(
        "messages.*.content.*.citations",
        "API, citations: none are made here",
        cites,
    ),
    Label("messages.*.content.*.content.*.citations", "the same, inside of a tool's result", cites),
    Label("system.*.citations", "the same, of a block", cites),
    Label("messages.*.content.*.content.*.cache_control", "the same, inside of a tool's result"),
    Label(
        "tools.*.defer_loading", "API, tool search: no tool is hidden. Claude Code 2.1.332 sends it"
    ),
    Label(
        "tools.*.eager_input_streaming",
        "API: a call streams as early as it is certain, whatever is asked",
    ),
    Label(
        "tools.*.allowed_callers",
        "API, programmatic calls: none is made here",
        allows_direct,
        "Add direct: no program calls a tool here.",
    ),
    Label(
        "tools.*.input_examples",
        "API, tool use examples",
        ([],),
        "Write examples into the description.",
    ),
)
# Claude Code 2.1.332 sends both; the first is the API's own.
HEADERS = ("anthropic-beta", "x-claude-code-session-id")
TOOLS = ToolTypes(
    known=("custom",),
    # A search for tools has nothing to find: the model is shown every tool.
    optional=("web_search_", "tool_search_tool_"),
    switches={
        "web_search": (
            'In Claude Code: --disallowedTools WebSearch, or "deny": ["WebSearch"] in its '
            "permissions. Else leave the"
            " tool out."
        ),
        "web_fetch": "In Claude Code: --disallowedTools WebFetch. Else leave the tool out.",
        "tool_search": "In Claude Code: ENABLE_TOOL_SEARCH=false. Else send all tools without "
        "defer_loading.",
        "mcp_toolset": "Let the client call the server itself and send its tools with an "
        "input_schema.",
        "bash_": "Send a type of before, or a tool with that name and an input_schema.",
        "text_editor_": "Send a type of before, or a tool with that name and an input_schema.",
        "memory_": "Send a type of before, or a tool with that name and an input_schema.",
    },
)


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


MESSAGES = Dialect(MESSAGES_LABELS, HEADERS, TOOLS, show_client_tools)
