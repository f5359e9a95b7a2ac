"""Which histories of calls, their results and thoughts are refused: those of which a model would
not see all."""

from collections.abc import Sequence
from typing import Any

from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering.renderer import Renderer

AS_TEXT = (
    "Write it as the text of a user's or an assistant's message, or take a model whose "
    "template has tools."
)
ONE_BY_ONE = "Send each call in a message of its own, with its result after it."


def check_loop(messages: Sequence[dict[str, Any]], renderer: Renderer, *, has_tools: bool) -> None:
    """Raises BadRequest for calls and results in ``messages`` (normal form) that the template
    leaves out, for a result without its call, and for tools whose results a model would never read.
    """
    if has_tools and not renderer.writes_results:
        raise BadRequest(
            "this model's chat template leaves out what a tool returned: the model would never "
            "read it",
            hint="Describe the tools in a message and send results as a user's text, or take "
            "another model.",
            param="tools",
            openai_code="unsupported_parameter",
        )
    called: set[str] = set()
    for number, message in enumerate(messages):
        if "reasoning_content" in message and renderer.thoughts is None:
            raise BadRequest(
                f"messages.{number}.reasoning_content: this model's chat template does not render "
                "thoughts",
                hint="Leave reasoning_content, reasoning, reasoning_details and thinking blocks "
                "out.",
                param=f"messages.{number}.reasoning_content",
                openai_code="unsupported_parameter",
            )
        calls = [call["id"] for call in message.get("tool_calls", [])]
        called.update(calls)
        if calls and not renderer.writes_calls:
            at = f"messages.{number}.tool_calls.0"
            raise _left_out(f"{at} is a call", "leaves calls out", at, AS_TEXT)
        if len(calls) > 1 and not renderer.writes_many_calls:
            at = f"messages.{number}.tool_calls.1"
            said = f"{at} is the second of {len(calls)} calls"
            raise _left_out(said, "writes one call of a message at most", at, ONE_BY_ONE)
        if message["role"] == "tool":
            _check_result(number, message["tool_call_id"], called, renderer)


def _check_result(number: int, call_id: str, called: set[str], renderer: Renderer) -> None:
    if call_id not in called:
        raise BadRequest(
            f"messages.{number} is the result of a call ({call_id!r}) that no message before it "
            "makes",
            hint="Send the assistant's message with its calls before their results, with the ids "
            "that it has.",
            param=f"messages.{number}.tool_call_id",
        )
    if not renderer.writes_results:
        said = f"messages.{number} is the result of a call"
        raise _left_out(said, "leaves results out", f"messages.{number}", AS_TEXT)


def _left_out(said: str, what: str, param: str, hint: str) -> BadRequest:
    message = f"{said}, and this model's chat template {what}"
    return BadRequest(message, hint=hint, param=param, openai_code="unsupported_parameter")
