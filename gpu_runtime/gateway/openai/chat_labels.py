"""The labels of OpenAI's chat and text completions, with the source of every line.

API: OpenAI's reference, "Create chat completion" and "Create completion"
(platform.openai.com/docs/api-reference). vLLM: its "OpenAI-compatible server" page (docs.vllm.ai),
extra parameters.
"""

from typing import Any

from gpu_runtime.gateway.bodies import Dialect
from gpu_runtime.generation.labels import Label, Table, ToolTypes

CLEARS_THOUGHTS = "clear_thinking_20251015"


def clears_nothing(context_management: Any) -> bool:
    """Whether none of the edits takes anything out of the conversation."""
    if context_management == []:  # as Responses has it
        return True
    if not isinstance(context_management, dict) or context_management.keys() - {"edits"}:
        return False
    edits = context_management.get("edits")
    return edits is None or (isinstance(edits, list) and all(map(_keeps_all, edits)))


def _keeps_all(edit: Any) -> bool:
    known = (
        isinstance(edit, dict)
        and edit.get("type") == CLEARS_THOUGHTS
        and edit.keys() == {"type", "keep"}
    )
    return known and edit["keep"] in ("all", {"type": "all"})


def allows_direct(callers: Any) -> bool:
    """Whether a tool may be called by the model itself; no program calls one here."""
    return isinstance(callers, list) and "direct" in callers


def warms_nothing(options: Any) -> bool:
    """Whether options of prompt caching ask for an answer, and not for a warm cache alone."""
    return isinstance(options, dict) and not options.get("prewarm")


# Of price and speed: all are the same here.
TIERS = ("auto", "default", "fast", "flex", "priority", "scale", "ultrafast")
CONTEXT_MANAGEMENT = Label(
    "context_management",
    "Anthropic's context editing: edits that clear nothing. Claude Code keeps all thoughts",
    clears_nothing,
    "Nothing is taken out of a conversation here. In Claude Code set"
    " CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS=1; else send no edits but clear_thinking_20251015"
    " with keep all.",
)
MODERATION = Label("moderation", "API, moderation", (), "Nothing is moderated here: leave it out.")
CLIENT_LABELS: Table = (
    MODERATION,
    Label("user", "API, user: names the end user"),
    Label("safety_identifier", "API, safety_identifier: the same, hashed"),
    Label(
        "prompt_cache_key",
        "API, prompt_cache_key: which cache is looked at. Codex 0.171.0 and OpenHands 1.58 do",
    ),
    Label(
        "prompt_cache_retention",
        "API, prompt_cache_retention; earlier clients write in-memory",
        ("in_memory", "in-memory", "24h"),
    ),
    Label(
        "prompt_cache_options",
        "API, prompt_cache_options. Codex 0.171.0 has it",
        warms_nothing,
        "Nothing is warmed without an answer: leave prewarm out.",
    ),
    Label("service_tier", "API, service_tier: price and speed", TIERS),
    Label(
        "client_metadata",
        "Codex 0.171.0 sends it with every request: ids of its own thread and turn",
    ),
)
ENGINE_NEUTRAL: Table = (
    Label("use_beam_search", "vLLM", (False,)),
    Label("length_penalty", "vLLM, of beam search", (1,)),
    Label("include_stop_str_in_output", "vLLM", (False,)),
    Label("skip_special_tokens", "vLLM", (True,)),
    Label("spaces_between_special_tokens", "vLLM", (True,)),
    Label("include_reasoning", "vLLM: thoughts are always returned", (True,)),
    Label("add_generation_prompt", "vLLM", (True,)),
    Label("continue_final_message", "vLLM", (False,)),
    Label("priority", "vLLM, of whose calls come first: all are the same here"),
    Label("request_id", "vLLM: its name in a log; the header X-Request-Id acts"),
    Label("return_token_offsets", "vLLM", (False,)),
    Label("routed_experts_prompt_start", "vLLM, of experts that are returned: none are", (0,)),
    Label("mm_payload", "vLLM, of images, which are refused"),
)
SHARED: Table = (
    *CLIENT_LABELS,
    CONTEXT_MANAGEMENT,
    *ENGINE_NEUTRAL,
    Label(
        "stream_options.include_obfuscation",
        "API: letters beside the answer that hide its length; none are added here",
    ),
    Label(
        "stream_options.continuous_usage_stats",
        "vLLM: token counts in every chunk; they are in the last one",
        (False,),
    ),
    Label("store", "API, store: every call is kept. Pi (pi-coding-agent) sends false"),
    Label("metadata", "API, metadata: its agent names the call's agent", stays=True),
)
THINKING: Table = (
    Label(
        "thinking.display", "Anthropic's extended thinking, display: thoughts are returned whole"
    ),
    Label(
        "thinking.block_binding",
        "Anthropic's extended thinking, block_binding: what becomes of thoughts that fail a check",
    ),
)
CHAT_LABELS: Table = (
    *SHARED,
    *THINKING,
    Label("verbosity", "API, verbosity: no model here reads it", ("low", "medium", "high")),
    Label("modalities", "API, modalities", (["text"],)),
    Label("prediction", "API, predicted outputs: speed alone"),
    Label(
        "tools.*.defer_loading",
        "Anthropic's tool search, which harnesses send in this dialect too: no tool is hidden",
    ),
    Label("tools.*.function.defer_loading", "the same, beside the function's name"),
    Label(
        "messages.*.cache_control",
        "Anthropic's prompt caching, which LiteLLM and OpenRouter take here",
    ),
    Label("messages.*.content.*.cache_control", "the same, of a part"),
    Label("tools.*.cache_control", "the same, of a tool"),
    Label("tools.*.function.cache_control", "the same"),
    Label("messages.*.content.*.prompt_cache_breakpoint", "API, prompt caching, of a part"),
    Label("usage", "OpenRouter, usage accounting: usage is always there", ({"include": True},)),
    Label("provider", "OpenRouter, provider routing: who computes it, all are the same here"),
    Label("transforms", "OpenRouter, message transforms: none is made here", ([],)),
    Label("cache_prompt", "llama.cpp's server: speed alone"),
    Label("echo", "vLLM", (False,)),
    Label("add_special_tokens", "vLLM: the template writes them", (False,)),
    Label("reasoning", "OpenRouter, of thoughts", (), "Send its effort as reasoning_effort."),
    Label("enable_thinking", "Qwen's own API", (), "Send it inside of chat_template_kwargs."),
    Label(
        "web_search_options",
        "API, web search",
        (),
        "Nothing searches here: leave it out, or give the model a function that searches.",
    ),
    Label(
        "messages.*.function_call",
        "API, before tools",
        (),
        "It has become tool_calls: send it as one, and its result as a message of the role tool.",
    ),
    Label(
        "messages.*.audio",
        "API, an earlier answer in sound",
        (),
        "This model has no hearing: send the answer's text.",
    ),
    Label("audio", "API, answers in sound", (), "This model has no voice: leave it out."),
    Label("functions", "API, before tools", (), "It has become tools: send them as such."),
    Label("function_call", "API, before tools", (), "It has become tool_choice: send that."),
)
TEXT_LABELS: Table = (
    *SHARED,
    Label("best_of", "API of text completions", (1,)),
    Label("suffix", "API of text completions", ("",)),
    Label("add_special_tokens", "vLLM", (True,)),
)
# OpenRouter's names for the program that calls, beside the betas. OpenHands 1.58 sends the last
# two, over LiteLLM.
HEADERS = ("openai-beta", "http-referer", "x-title")
TOOLS = ToolTypes(
    known=("function", "custom"),
    switches={"web_search": "Leave the tool out, or give the model a function that searches."},
)
CHAT, TEXT = Dialect(CHAT_LABELS, HEADERS, TOOLS), Dialect(TEXT_LABELS)
# Of a conversation whose tokens are counted: the labels of its messages and tools.
TOKENS = Dialect(tuple(label for label in CHAT_LABELS if "*" in label.path))
