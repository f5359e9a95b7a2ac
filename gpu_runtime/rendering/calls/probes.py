"""Messages with which a chat template is asked how it writes calls and their results."""

from typing import Any

PROBE, PROBE_TOOL, PROBE_RESULT = "probe", "probe_tool", "probed"


def user() -> list[dict[str, Any]]:
    """A conversation of one short message."""
    return [{"role": "user", "content": "x"}]


def answered() -> list[dict[str, Any]]:
    """The same with an answer of plain text, ``PROBE`` twice."""
    return [*user(), {"role": "assistant", "content": PROBE * 2}]


def calling(*ids: str) -> dict[str, Any]:
    """A turn with a call for each id, of nine letters and digits: Mistral's templates insist."""
    calls = [
        {
            "id": number,
            "type": "function",
            "function": {"name": PROBE_TOOL, "arguments": {PROBE: f"of_{number}"}},
        }
        for number in ids
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def tool() -> dict[str, Any]:
    """A tool with one argument."""
    parameters = {
        "type": "object",
        "properties": {PROBE: {"type": "string", "description": "x"}},
        "required": [PROBE],
    }
    return {
        "type": "function",
        "function": {"name": PROBE_TOOL, "description": "x", "parameters": parameters},
    }


def result() -> dict[str, Any]:
    """What the call of ``calling("probe1234")`` returned."""
    return {"role": "tool", "tool_call_id": "probe1234", "content": PROBE_RESULT}
