"""What a request sets of the chat template: its own variables, and how much to think where a
variable says that.
"""

from collections.abc import Mapping
from typing import Any, Literal

from gpu_runtime.generation.answers.form import AnswerForm
from gpu_runtime.generation.bounds.open_schemas import WARNING, open_request
from gpu_runtime.generation.chat_prompt import PreparedChat
from gpu_runtime.generation.parsing import LABELS
from gpu_runtime.generation.requests import ChatRequest
from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering.harmony import EFFORTS
from gpu_runtime.rendering.renderer import Renderer

EFFORT, SWITCH = "reasoning_effort", "enable_thinking"


def prepare_chat(
    request: ChatRequest,
    renderer: Renderer,
    body_sha256: str,
    request_id: str | None,
    agent: str | None,
    labels: Mapping[str, Any],
    *,
    unsupported_effort: Literal["label", "refuse"],
    most_tokens: int,
) -> PreparedChat:
    """``request``, to be rendered under the variables that it sets, with its ``labels``.

    A wish for thoughts that this template cannot express changes no prompt: it is a label, unless
    ``unsupported_effort`` refuses it. Raises BadRequest for that, and for any other that the
    template ignores. ``most_tokens`` bound the session's answers.
    """
    unmet: dict[str, Any] = {}
    under = renderer.with_variables(template_variables(request, renderer, unmet))
    if unmet and unsupported_effort == "refuse":
        raise _unknown_effort(renderer, next(iter(unmet)))
    request, unused = _with_budget(request, under, most_tokens)
    kept = {**labels, **unused, **unmet, **under.system_text.changes(request.normal_messages)}
    if found := open_request(request):
        kept[WARNING] = found
    return PreparedChat(
        request, under, body_sha256, request_id, agent, {LABELS: kept} if kept else {}
    )


def _with_budget(
    request: ChatRequest, renderer: Renderer, most_tokens: int
) -> tuple[ChatRequest, dict[str, Any]]:
    """``request`` with the budget of its ``thinking`` as its thinking_budget, or the label of one
    that ends nothing here: without thoughts, beside a grammar, or no shorter than the answer."""
    asked = request.thinking.budget_tokens if request.thinking else None
    if asked is None or request.thinking_budget is not None:
        return request, {}
    most, form = min(request.most_tokens or most_tokens, most_tokens), AnswerForm(request, renderer)
    is_bound = form.grammar is not None or request.json_schema is not None
    if not 0 < asked < most or form.thoughts is None or is_bound:
        return request, {"thinking.budget_tokens": asked}
    return request.model_copy(update={"thinking_budget": asked}), {}


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
        raise _unknown_effort(renderer, EFFORT)
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


def _unknown_effort(renderer: Renderer, param: str) -> BadRequest:
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
