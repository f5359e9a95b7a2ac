"""Makes the prompt of a call from the ids that the engine has seen already, wherever that is
possible.

When a request's messages continue an earlier call of the episode, the earlier prompt and the
sampled ids of its answer are taken as they are, and only what follows is encoded. Text is used to
find and to check the position, never to make those ids again. Where the template writes the earlier
conversation differently now than the engine saw it (thinking stripped, tools moved), the check
fails: the prompt is rendered afresh, a new timeline starts, and the position is kept.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Literal

from gpu_runtime.journal.records import Completion, Parent
from gpu_runtime.refusals import prompt_too_long
from gpu_runtime.rendering.calls.pieces import ParsedCall
from gpu_runtime.rendering.history.continued import CHANGED
from gpu_runtime.rendering.history.conversation import Conversation, ReusablePrefix
from gpu_runtime.rendering.marks import whole
from gpu_runtime.rendering.renderer import Renderer
from gpu_runtime.rendering.tool_formats import ToolFormat

MAX_PREFIXES_TRIED = 4  # earlier calls that are checked against one request; each costs two renders
MAX_ENDS_TRIED = 4  # an answer's text may hold what ends a turn
MAX_SHOWN = 160  # tokens, and characters of a line, that are shown on each side of the difference
Cause = Literal["client", "template", "gateway"]


@dataclass(frozen=True)
class Prompt:
    """What the engine is given. ``parent`` holds the first ``parent_prefix_length`` ids;
    ``messages_from`` of the messages are its own. ``names`` are the chain of the request; ``drift``
    is why a continuation could not be reused.
    """

    ids: tuple[int, ...]
    names: list[str]
    parent: Parent | None = None
    parent_prefix_length: int = 0
    messages_from: int = 0
    drift: dict[str, Any] | None = None


@dataclass(frozen=True)
class Departure:
    """A request continues ``source`` up to its message number ``message``, and why not further."""

    source: ReusablePrefix
    message: int
    cause: Cause
    reason: str


def compose(
    renderer: Renderer,
    conversation: Conversation,
    messages: Sequence[dict[str, Any]],
    tools: Sequence[dict[str, Any]],
    forced: ToolFormat | None = None,
    *,
    context_length: int | None = None,
) -> Prompt:
    """The prompt for ``messages`` (normal form).

    Raises BadRequest where the template refuses them, and for what is far longer than a given
    ``context_length``.
    """
    request = conversation.recognise(messages, tools, renderer.variables)
    full = renderer.text(request.messages, tools, generation=True) + renderer.prefill(
        forced, request.messages
    )
    _reject_oversized(renderer, full, context_length, "messages")
    failed: Departure | None = None
    for tries, (count, source) in enumerate(conversation.earlier(request)):
        if tries == MAX_PREFIXES_TRIED:
            break
        end = _end_of_answer(renderer, source, request.messages[: count - 1], tools, full)
        if isinstance(end, int):
            kept, rest = _join(renderer, source.answer, renderer.encode(full[end:]))
            prefix = source.prompt_ids + source.answer.token_ids_T[:kept]
            parent = Parent(source.call_id, source.choice, kept)
            prompt = Prompt(prefix + rest, request.names, parent, len(prefix), count)
            if kept < len(source.answer.token_ids_T):
                failed = failed or Departure(source, count - 1, *_why_cut(renderer, source.answer))
            break
        failed = failed or Departure(source, count - 1, *end)
    else:
        prompt = Prompt(renderer.encode(full), request.names)
    if failed is None and (departed := conversation.departed(request, prompt.messages_from)):
        failed = Departure(departed[1], departed[0], "client", CHANGED)
    is_new = failed is None and prompt.parent is None
    if is_new and (found := conversation.continued(request, tools, renderer.variables)):
        failed = Departure(found[0], found[1], "client", found[2])
    return replace(prompt, drift=explain(renderer, failed, prompt.ids)) if failed else prompt


def compose_text(
    renderer: Renderer, conversation: Conversation, text: str, *, context_length: int | None = None
) -> Prompt:
    """The prompt for plain ``text``: an earlier call's ids as far as it continues that call's text.

    Raises BadRequest for what is far longer than a given ``context_length``.
    """
    _reject_oversized(renderer, text, context_length, "prompt")
    if found := conversation.earlier_text(text):
        length, source = found
        kept = kept_ids(renderer, source.answer)
        if kept and renderer.is_special(source.answer.token_ids_T[kept - 1]):
            kept -= 1  # the end that was sampled is no part of the text that goes on
        if kept is not None:
            prefix = source.prompt_ids + source.answer.token_ids_T[:kept]
            rest = renderer.encode(text[length:])
            return Prompt(
                prefix + rest, [], Parent(source.call_id, source.choice, kept), len(prefix)
            )
    prompt = Prompt(renderer.encode(text, special=True), [])
    if (left := conversation.departed_text(text)) is not None:
        departure = Departure(
            left, 0, "client", "the client goes on with another text than was sampled"
        )
        return replace(prompt, drift=explain(renderer, departure, prompt.ids))
    return prompt


def _reject_oversized(
    renderer: Renderer, text: str, context_length: int | None, param: str
) -> None:
    if context_length is not None and (least := renderer.least_tokens(text)) >= context_length:
        raise prompt_too_long(context_length, least, param, is_exact=False)


def kept_ids(renderer: Renderer, answer: Completion) -> int | None:
    """How many sampled ids stand for the answer's text; none if a stop string begins inside a
    token.
    """
    ids = answer.token_ids_T
    if answer.stop_reason is None:
        return len(ids) - _ends_with_a_stop_token(renderer, answer)
    for kept in range(len(ids), -1, -1):
        text = renderer.decode(ids[:kept])
        if len(text) <= len(answer.text):
            return kept if text == answer.text else None
    return None


def _ends_with_a_stop_token(renderer: Renderer, answer: Completion) -> bool:
    """Whether the last id is one that the client stopped at: it is no part of the text, and no mark
    of the template.
    """
    ids = answer.token_ids_T
    if answer.finish_reason != "stop" or not ids or renderer.is_special(ids[-1]):
        return False
    return answer.text != renderer.decode(ids) and answer.text == renderer.decode(ids[:-1])


def _end_of_answer(
    renderer: Renderer,
    source: ReusablePrefix,
    before: Sequence[dict[str, Any]],
    tools: Sequence[dict[str, Any]],
    full: str,
) -> int | tuple[Cause, str]:
    """Where in ``full`` the text of the source's answer ends, or why ``full`` does not hold what
    the engine saw.

    It is looked for in the text that goes on and not in a history that ends with the answer: some
    templates write the last answer of a conversation in another way than one that is followed by
    more.
    """
    if kept_ids(renderer, source.answer) is None:
        return "gateway", "a stop string began inside a token"
    start = renderer.text(before, tools, generation=True) + renderer.prefill(source.forced, before)
    if not full.startswith(start):
        return "template", "the template rewrites what came before the answer"
    end = _next_end(renderer, full, len(start))
    if end < 0:
        return "template", "the template does not end the turn as usual"
    for _ in range(MAX_ENDS_TRIED):
        if end < 0:
            break
        if _same_answer(renderer, source, full[len(start) : end], before, tools):
            return end
        end = _next_end(renderer, full, end + 1)
    return "template", "the template rewrites the answer"


def _why_cut(renderer: Renderer, answer: Completion) -> tuple[Cause, str]:
    """Why a conversation does not go on with all that was sampled of ``answer``."""
    if answer.stop_reason is not None or not renderer.is_special(answer.token_ids_T[-1]):
        return (
            "client",
            "what ended the answer, a stop of the client's own, is no part of the conversation",
        )
    return "template", "the template ends the turn with another token than was sampled"


def _next_end(renderer: Renderer, full: str, start: int) -> int:
    """Where a turn may end in ``full`` from ``start`` on; -1 for nowhere."""
    return min((end for tail in renderer.ends if (end := full.find(tail, start)) >= 0), default=-1)


def _same_answer(
    renderer: Renderer,
    source: ReusablePrefix,
    rendered: str,
    before: Sequence[dict[str, Any]],
    tools: Sequence[dict[str, Any]],
) -> bool:
    """Whether the template's text of the answer equals what was sampled, up to the whitespace
    around its parts.
    """
    answer = source.answer
    ids = answer.token_ids_T[: kept_ids(renderer, answer)]
    if ids and renderer.is_special(ids[-1]):
        ids = ids[:-1]
    sampled = {answer.text.strip(), renderer.decode(ids, special=True).strip()}
    if (as_read := whole(rendered)).strip() in sampled:
        return True
    prefill = source.forced.prefill if source.forced else ""
    if (harmony := renderer.harmony) is not None:
        said, written = (
            harmony.meaning(renderer.decode, each, is_forced=bool(prefill))
            for each in (ids, renderer.encode(rendered))
        )
        return said == written

    calls_as = renderer.tool_format.for_tools(list(tools)) if renderer.tool_format else None
    thoughts_as = (
        renderer.thoughts_after(before, calls_as if tools else None) if not prefill else None
    )

    def meaning(text: str) -> tuple[str, str, list[tuple[str, Any]]]:
        thoughts, rest = thoughts_as.split(text) if thoughts_as else (None, text)
        calls: list[ParsedCall] = []
        # a call's arguments are written anew by the template: they must mean the same
        if calls_as is not None:
            rest, calls = calls_as.read(f"{prefill}{rest}")
        return (
            (thoughts or "").strip(),
            rest.strip(),
            [(call.name, json.loads(call.arguments)) for call in calls],
        )

    return meaning(as_read) in [meaning(text) for text in sampled]


def _join(
    renderer: Renderer, answer: Completion, rest: tuple[int, ...]
) -> tuple[int, tuple[int, ...]]:
    """How many sampled ids are kept and what follows them: an end of turn that was sampled is not
    written twice.

    A sampled end that is not the template's own is left out of what follows: the engine never
    continued after it.
    """
    kept = kept_ids(renderer, answer) or 0
    ended = answer.finish_reason == "stop" and answer.stop_reason is None
    if not ended or kept == 0 or not renderer.is_special(answer.token_ids_T[kept - 1]):
        return kept, rest
    if rest and rest[0] == answer.token_ids_T[kept - 1]:
        return kept, rest[1:]
    return kept - 1, rest


def explain(
    renderer: Renderer, departure: Departure, prompt_ids: tuple[int, ...]
) -> dict[str, Any] | None:
    """The drift point of the call that reads ``prompt_ids``; None if they hold the source's tokens
    all the same."""
    source = departure.source
    seen = source.prompt_ids + source.answer.token_ids_T
    token = next(
        (i for i, (a, b) in enumerate(zip(seen, prompt_ids, strict=False)) if a != b),
        len(prompt_ids),
    )
    if token >= len(seen) or prompt_ids[: len(seen)] == seen:
        return None
    saw, renders = _first_difference(*(_around(renderer, ids, token) for ids in (seen, prompt_ids)))
    return {
        "continues": source.call_id,
        "message": departure.message,
        "token": token,
        "cause": departure.cause,
        "reason": departure.reason,
        "saw": saw,
        "renders": renders,
    }


def _around(renderer: Renderer, ids: tuple[int, ...], token: int) -> list[str]:
    """The lines from that on in which ``token`` of ``ids`` stands."""
    before = renderer.decode(ids[max(0, token - MAX_SHOWN) : token], special=True).rpartition("\n")[
        2
    ]
    after = renderer.decode(ids[token : token + MAX_SHOWN], special=True)
    return f"{before[-MAX_SHOWN:]}{after}".split("\n")


def _first_difference(saw: list[str], renders: list[str]) -> tuple[str, str]:
    """The first lines that differ; a token may differ by the line's end alone."""
    pairs = zip_longest(saw, renders, fillvalue="")
    one, other = next(((a, b) for a, b in pairs if a != b), (saw[0], renders[0]))
    return one[: 2 * MAX_SHOWN], other[: 2 * MAX_SHOWN]
