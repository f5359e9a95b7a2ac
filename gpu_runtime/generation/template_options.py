"""What a request needs of the model's chat template: the variables that it sets, how much to think
where a variable sets that, and a history of calls, results and thoughts of which the model would
see all.
"""

from collections.abc import Sequence
from typing import Any

from gpu_runtime.generation.requests import ChatRequest
from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering.harmony import EFFORTS
from gpu_runtime.rendering.renderer import Renderer

EFFORT, SWITCH = "reasoning_effort", "enable_thinking"
AS_TEXT = (
    "Write it as the text of a user's or an assistant's message, or take a model whose "
    "template has tools."
)
ONE_BY_ONE = "Send each call in a message of its own, with its result after it."


def template_variables(
    request: ChatRequest, renderer: Renderer, unmet: dict[str, Any]
) -> dict[str, Any]:
    """The template's variables as ``request`` sets them; what it asks for and the template has not
    goes to ``unmet``.

    Raises BadRequest for thoughts switched off where they cannot be, and for what is said twice.
    """
    variables = dict(request.chat_template_kwargs or {})
    for param, said in (
        ("reasoning_effort", _of_effort(request, renderer, unmet)),
        ("thinking", _of_switch(request, renderer, unmet)),
    ):
        for name, value in said.items():
            if variables.get(name, value) != value:
                raise BadRequest(
                    f"{param} contradicts another option that sets {name}",
                    hint="Send one.",
                    param=param,
                )
        variables |= said
    return variables


def _of_effort(request: ChatRequest, renderer: Renderer, unmet: dict[str, Any]) -> dict[str, Any]:
    effort, known = request.reasoning_effort, renderer.template_variables
    if effort is None or (effort == "none" and renderer.thoughts is None and EFFORT not in known):
        return {}  # a model without thoughts
    if renderer.harmony is not None and effort not in EFFORTS:
        raise BadRequest(
            f"this model's levels of reasoning effort are {', '.join(EFFORTS)}, not {effort}",
            hint="Send one of them, or leave it out. In Codex: model_reasoning_effort in "
            "config.toml; in Claude Code:"
            " --effort.",
            param=EFFORT,
            openai_code="unsupported_parameter",
        )
    if EFFORT in known:
        return {EFFORT: effort}
    if effort == "none":
        if SWITCH in known:
            return {SWITCH: False}
        raise unknown_effort(renderer, EFFORT)
    unmet[EFFORT] = effort
    return {}


def _of_switch(request: ChatRequest, renderer: Renderer, unmet: dict[str, Any]) -> dict[str, Any]:
    """``adaptive`` leaves it to the model, as a request without the option does."""
    if request.thinking is None or request.thinking.type == "adaptive":
        return {}
    wanted = request.thinking.type == "enabled"
    if SWITCH in renderer.template_variables:
        return {SWITCH: wanted}
    if wanted == (renderer.thoughts is not None) or (
        renderer.thoughts and not renderer.thoughts.begins_inside
    ):
        return {}
    if wanted:
        unmet["thinking"] = request.thinking.type
        return {}
    raise BadRequest(
        "this model always thinks before it answers",
        hint="Leave thinking out.",
        param="thinking",
        openai_code="unsupported_parameter",
    )


def unknown_effort(renderer: Renderer, param: str) -> BadRequest:
    lacks = "levels of reasoning effort"
    hint = "Leave it out: nothing in this model's prompt depends on it."
    if param == "thinking":
        lacks, hint = "thoughts", "Leave thinking out."
    elif SWITCH in renderer.template_variables:
        hint = f"It can be switched alone: chat_template_kwargs={{{SWITCH!r}: true or false}}, or"
        hint += " reasoning_effort none."
    return BadRequest(
        f"this model's chat template has no {lacks}",
        hint=hint,
        param=param,
        openai_code="unsupported_parameter",
    )


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
