"""The labels of OpenAI's Responses dialect, with the source of every line, and the types of its
tools.

API: OpenAI's reference, "Create a model response"
(platform.openai.com/docs/api-reference/responses/create).
Codex: requests of Codex 0.171.0 as recorded (tests/gpu_runtime/gateway/recorded/codex.json).
"""

from gpu_runtime.gateway.bodies import Dialect
from gpu_runtime.gateway.openai.chat_labels import (
    CLIENT_LABELS,
    ENGINE_NEUTRAL,
    allows_direct,
    clears_nothing,
)
from gpu_runtime.generation.labels import Label, Table, ToolTypes

DIRECT = ({"type": "direct"},)
RESPONSES_LABELS: Table = (
    *CLIENT_LABELS,
    *ENGINE_NEUTRAL,
    Label("store", "API, store: every call is kept. Codex 0.171.0 sends false", stays=True),
    Label("metadata", "API, metadata: its agent names the call's agent", stays=True),
    Label("background", "API, background", (False,), "Leave it out: a call ends with its answer."),
    Label(
        "conversation",
        "API, conversations that the server keeps",
        (),
        "Send the whole conversation as input, or previous_response_id.",
    ),
    Label("prompt", "API, prompts that the server keeps", (), "Send its text as instructions."),
    Label("background_options", "API, of requests in the background, which are refused"),
    Label(
        "context_management",
        "API, compaction, and Anthropic's edits: what clears nothing",
        clears_nothing,
        "Nothing is taken out of a conversation here: let the client send a shorter one.",
    ),
    Label(
        "stream_options.include_obfuscation",
        "API: letters beside the answer that hide its length; none are added here",
    ),
    Label(
        "stream_options.reasoning_summary_delivery",
        "Codex 0.171.0: when a summary of thoughts comes. There is none",
    ),
    Label("stream_options", "API, stream_options: nothing else is in it", ({},)),
    Label("access_programs", "API, who may ask what. Codex 0.171.0 has it"),
    Label("request_country", "Codex 0.171.0: where it runs"),
    Label("image", "API, of images, which are refused"),
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
    Label(
        "reasoning.context",
        "API, which thoughts the model reads again: the template decides",
        ("auto",),
        "The chat template decides which thoughts are read again: send auto.",
    ),
    Label("reasoning.mode", "API, reasoning.mode", ("standard",)),
    *(
        label
        for tools in ("tools.*", "tools.*.tools.*", "input.*.tools.*", "input.*.tools.*.tools.*")
        for label in (
            Label(f"{tools}.async", "API, calls that are not waited for", (False,)),
            Label(
                f"{tools}.allowed_callers",
                "API, programmatic calls: none is made here",
                allows_direct,
                "Add direct: no program calls a tool here.",
            ),
            Label(f"{tools}.output_schema", "API, of what a call returns: no model here reads it"),
            Label(f"{tools}.defer_loading", "API, tool search: no tool is hidden from the model"),
        )
    ),
    Label("input.*.async", "API, an echo of a call", (False,)),
    Label("input.*.caller", "API, programmatic calls: an echo of a call of the model's", DIRECT),
    Label("input.*.content.*.prompt_cache_breakpoint", "API, prompt caching, of a part"),
    Label("input.*.output.*.prompt_cache_breakpoint", "the same, of a tool's result"),
    Label("input.*.internal_chat_message_metadata_passthrough", "Codex, of its own items"),
)
# Codex 0.171.0 sends all but openai-beta, which is of OpenAI's clients.
HEADERS = ("openai-beta", "x-codex-beta-features", "session-id", "thread-id")
TOOLS = ToolTypes(
    known=("function", "custom", "namespace", "local_shell", "tool_search client"),
    # Codex sends the first with every request unless it is switched off. A search of the server's
    # for tools has nothing to find: the model is shown every tool.
    optional=("web_search", "tool_search"),
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
        "shell": "Send the shell as a function with a schema, which your client runs.",
        "apply_patch": "Send it as a function with a schema, which your client runs.",
        "mcp": "Let the client call the server itself and send its tools as functions: in Codex, "
        "[mcp_servers].",
    },
)
RESPONSES = Dialect(RESPONSES_LABELS, HEADERS, TOOLS)
