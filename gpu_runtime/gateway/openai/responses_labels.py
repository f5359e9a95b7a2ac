"""The labels of OpenAI's Responses dialect, with the source of every line, and the types of its
tools.

API: OpenAI's reference, "Create a model response"
(platform.openai.com/docs/api-reference/responses/create).
Codex: requests of Codex 0.171.0 as recorded (tests/gpu_runtime/gateway/recorded/codex.json).
"""

from gpu_runtime.gateway.openai.chat_labels import CLIENT_LABELS, ENGINE_NEUTRAL
from gpu_runtime.generation.parsing import Label, Table, ToolTypes

RESPONSES_LABELS: Table = (
    *CLIENT_LABELS,
    *ENGINE_NEUTRAL,
    Label("store", "API, store: every call is kept. Codex 0.171.0 sends false", stays=True),
    Label("metadata", "API, metadata: its agent names the call's agent", stays=True),
    Label("background", "API, background", (False,)),
    Label("stream_options", "API, stream_options", ({}, {"include_obfuscation": False})),
    Label(
        "max_tool_calls",
        "API, max_tool_calls: of built-in tools, which there are none of",
        stays=True,
    ),
    Label("truncation", "API, truncation: nothing is cut, what is too long is refused", stays=True),
    Label("text.verbosity", "API, text.verbosity: no model here reads it", stays=True),
    Label(
        "reasoning.summary",
        "API, reasoning.summary: thoughts are returned whole. Codex 0.171.0 sends auto",
        stays=True,
    ),
    Label(
        "reasoning.generate_summary", "API, reasoning.generate_summary: the same, older", stays=True
    ),
    Label("tools.*.defer_loading", "API, tool search: no tool is hidden from the model"),
    Label("tools.*.tools.*.defer_loading", "API, tool search, in a namespace"),
    Label("input.*.internal_chat_message_metadata_passthrough", "Codex, of its own items"),
)
# Codex 0.171.0 sends all but openai-beta, which is of OpenAI's clients.
HEADERS = ("openai-beta", "x-codex-beta-features", "session-id", "thread-id")
TOOLS = ToolTypes(
    known=("function", "custom", "namespace"),
    # Codex sends it with every request unless it is switched off.
    optional=(
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    ),
    switches={
        "web_search": 'In Codex: web_search = "disabled" in config.toml. Else leave the tool out.',
        "image_generation": (
            "In Codex: image_generation = false under [features] in config.toml. Else leave the "
            "tool out."
        ),
        "tool_search": (
            "In Codex: name the session's own model, for which it sends every tool at once. Else"
            " send all tools as functions."
        ),
        "local_shell": "In Codex: name the session's own model, for which it sends its shell as a "
        "function.",
        "shell": "Send the shell as a function with a schema, which your client runs.",
        "apply_patch": "Send it as a function with a schema, which your client runs.",
        "mcp": "Let the client call the server itself and send its tools as functions: in Codex, "
        "[mcp_servers].",
    },
)
