"""Which message or tool a chat template refuses: templates raise with words alone."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jinja2

from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering.marks import whole

TEMPLATE_FAULTS = (
    jinja2.TemplateError,
    TypeError,
    ValueError,
    AttributeError,
    LookupError,
    ArithmeticError,
)
Dicts = Sequence[dict[str, Any]]


def refusal(
    error: Exception,
    messages: Dicts,
    tools: Dicts,
    written: Callable[[Dicts, Dicts], str],
    variables: Mapping[str, Any],
) -> BadRequest:
    """What is said of the ``error`` with which ``written`` failed at ``messages`` and ``tools``."""

    def is_refused(messages: Dicts, tools: Dicts) -> bool:
        try:
            written(messages, tools)
        except TEMPLATE_FAULTS as other:
            return str(other) == str(error)
        return False

    is_own = isinstance(error, jinja2.TemplateError)  # of the template's own words
    what, param = "these variables", "chat_template_kwargs"
    if is_own or not variables:
        place = fault_place(messages, tools, is_refused)
        what, param = place or "these messages", place or "messages"
    said = f"refuses {what}" if is_own else f"cannot be written for {what}"
    return BadRequest(whole(f"the model's chat template {said}: {error}"), param=param)


def fault_place(
    messages: Dicts, tools: Dicts, is_refused: Callable[[Dicts, Dicts], bool]
) -> str | None:
    """The path of the message without which, or of the tool without which, those before it are not
    refused in the same words; None where it is all of them, as where a template misses a user's
    message.

    ``is_refused`` renders: a fault in N messages costs log N of them, and two.
    """
    if tools and not is_refused(messages, ()):
        found = _first(len(tools), lambda count: is_refused(messages, tools[:count]))
        return f"tools.{found}"
    found = _first(len(messages), lambda count: is_refused(messages[:count], tools))
    if found == 0 and (len(messages) == 1 or is_refused(messages[1:], tools)):
        return None
    return f"messages.{found}"


def _first(count: int, is_refused: Callable[[int], bool]) -> int:
    """The number of one of ``count`` things with which the ones before it are refused, and without
    which they are not."""
    free, refused = 0, count
    while refused - free > 1:
        middle = (free + refused) // 2
        if is_refused(middle):
            refused = middle
        else:
            free = middle
    return refused - 1
