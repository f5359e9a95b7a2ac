"""What a request sets of the chat template: its own variables, and how much to think where a variable says that."""

from typing import Any

from gpu_runtime.generation.chat_prompt import PreparedChat
from gpu_runtime.generation.requests import ChatRequest
from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering.harmony import EFFORTS
from gpu_runtime.rendering.renderer import Renderer

EFFORT, SWITCH = "reasoning_effort", "enable_thinking"


def prepare_chat(
    request: ChatRequest, renderer: Renderer, body_sha256: str, request_id: str | None, agent: str | None
) -> PreparedChat:
    """``request``, to be rendered under the variables that it sets. Raises BadRequest for what the template ignores."""
    under = renderer.with_variables(template_variables(request, renderer))
    return PreparedChat(request, under, body_sha256, request_id, agent)


def template_variables(request: ChatRequest, renderer: Renderer) -> dict[str, Any]:
    """The template's variables as ``request`` sets them.

    Raises BadRequest for an effort or a switch that this template does not have, and for what is said twice.
    """
    variables = dict(request.chat_template_kwargs or {})
    for param, said in (
        ("reasoning_effort", _of_effort(request, renderer)),
        ("thinking", _of_switch(request, renderer)),
    ):
        for name, value in said.items():
            if variables.get(name, value) != value:
                raise BadRequest(f"{param} contradicts another option that sets {name}", hint="Send one.", param=param)
        variables |= said
    return variables


def _of_effort(request: ChatRequest, renderer: Renderer) -> dict[str, Any]:
    effort, known = request.reasoning_effort, renderer.template_variables
    if effort is None or (effort == "none" and renderer.thoughts is None and EFFORT not in known):
        return {}  # a model without thoughts
    if renderer.harmony is not None and effort not in EFFORTS:
        raise BadRequest(
            f"this model's levels of reasoning effort are {', '.join(EFFORTS)}, not {effort}",
            hint="Send one of them, or leave it out.",
            param=EFFORT,
            openai_code="unsupported_parameter",
        )
    if EFFORT in known:
        return {EFFORT: effort}
    if effort == "none" and SWITCH in known:
        return {SWITCH: False}
    raise _unknown_effort(renderer)


def _of_switch(request: ChatRequest, renderer: Renderer) -> dict[str, Any]:
    """``adaptive`` leaves it to the model, as a request without the option does."""
    if request.thinking is None or request.thinking.type == "adaptive":
        return {}
    wanted = request.thinking.type == "enabled"
    if SWITCH in renderer.template_variables:
        return {SWITCH: wanted}
    if wanted == (renderer.thoughts is not None) or (renderer.thoughts and not renderer.thoughts.begins_inside):
        return {}
    raise BadRequest(
        "this model's chat template has no thoughts" if wanted else "this model always thinks before it answers",
        hint="Leave thinking out.",
        param="thinking",
        openai_code="unsupported_parameter",
    )


def _unknown_effort(renderer: Renderer) -> BadRequest:
    switch = SWITCH in renderer.template_variables
    return BadRequest(
        "this model's chat template has no levels of reasoning effort",
        hint=f"It can be switched alone: chat_template_kwargs={{{SWITCH!r}: true or false}}, or reasoning_effort none."
        if switch
        else "Leave it out: nothing in this model's prompt depends on it.",
        param=EFFORT,
        openai_code="unsupported_parameter",
    )
