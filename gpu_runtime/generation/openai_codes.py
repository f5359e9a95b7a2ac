"""The codes that OpenAI's API has for what is wrong with a field of a request.

Source: errors of ``POST /v1/chat/completions`` and ``/v1/responses`` of api.openai.com, whose
``code`` goes with the ``param``; OpenAI's reference lists no table of them.
"""

from pydantic_core import ErrorDetails

INVALID = "invalid_value"
BOUNDS = {"greater_than": "below_min", "greater_than_equal": "below_min"} | {
    "less_than": "above_max",
    "less_than_equal": "above_max",
}
LENGTHS = {
    "too_long": "array_above_max_length",
    "too_short": "array_below_min_length",
    "string_too_long": "string_above_max_length",
    "string_too_short": "string_below_min_length",
}
MISSING = ("missing", "union_tag_not_found")
# Fields of OpenAI's and Anthropic's own references that nothing here acts on; any other is unknown.
UNSUPPORTED = frozenset(
    (
        *("audio", "function_call", "functions", "moderation", "web_search_options"),  # chat
        *("conversation", "prompt"),  # Responses; a text completion has a prompt
        *("container", "mcp_servers", "output_format"),  # Messages
    )
)


def code_of(entry: ErrorDetails) -> str:
    """The code for one error of pydantic's ``ValidationError.errors()``."""
    kind, context = entry["type"], entry.get("ctx", {})
    if kind == "extra_forbidden":
        is_known = len(entry["loc"]) == 1 and entry["loc"][0] in UNSUPPORTED
        return "unsupported_parameter" if is_known else "unknown_parameter"
    if kind in MISSING:
        return "missing_required_parameter"
    if (side := BOUNDS.get(kind)) is not None:
        bound = next((context[name] for name in ("ge", "gt", "le", "lt") if name in context), 0)
        return f"{'decimal' if isinstance(bound, float) else 'integer'}_{side}_value"
    if kind in LENGTHS:
        is_empty = kind == "too_short" and context.get("actual_length") == 0
        return "empty_array" if is_empty else LENGTHS[kind]
    return "invalid_type" if kind.endswith(("_type", "_from_float")) else INVALID
