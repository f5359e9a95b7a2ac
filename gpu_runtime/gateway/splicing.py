"""Makes the prompt of a call from the ids that the engine has seen already, wherever that is possible.

When a request's messages continue an earlier call of the episode, the earlier prompt and the sampled ids of its answer
are taken as they are, and only what follows is encoded. Text is used to find and to check the place, never to make
those ids again. Where the template writes the earlier conversation differently now than the engine saw it (thinking
stripped, tools moved), the check fails: the prompt is rendered afresh, a new timeline starts, and the place is noted.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_runtime.gateway.errors import prompt_too_long
from gpu_runtime.gateway.messages import chain
from gpu_runtime.gateway.render import Renderer
from gpu_runtime.gateway.tool_calls import ToolFormat
from gpu_runtime.journal_records import CallRecord, Completion, Parent

MOST_TRIES = 4  # earlier calls that are checked against one request; each costs two renders
FRAGMENT = 80  # characters of a drift point's texts that are kept


@dataclass(frozen=True)
class Source:
    """A completion that a later request may continue. ``forced`` answers stand between a prefill and a closing."""

    call_id: str
    choice: int
    prompt_ids: tuple[int, ...]
    answer: Completion
    forced: ToolFormat | None


@dataclass(frozen=True)
class Prompt:
    """What the engine is given. ``parent`` holds the first ``parent_prefix_length`` ids; ``messages_from`` of the
    messages are its own. ``names`` are the chain of the request; ``drift`` says why a continuation could not be reused.
    """

    ids: tuple[int, ...]
    names: list[str]
    parent: Parent | None = None
    parent_prefix_length: int = 0
    messages_from: int = 0
    drift: dict[str, Any] | None = None


class Conversation:
    """The completions of one episode by the name of the conversation that each ends."""

    def __init__(self, calls: Sequence[CallRecord] = (), tool_format: ToolFormat | None = None) -> None:
        self._sources: dict[str, list[Source]] = {}
        self._texts: list[tuple[str, Source]] = []
        for call in calls:
            self.add(call, tool_format)

    def add(self, call: CallRecord, tool_format: ToolFormat | None) -> None:
        """Let later requests continue ``call``."""
        if call.status != "completed":
            return
        forced = tool_format if call.options.get("forced_tool") else None
        prompt = call.options.get("prompt")
        for answer in call.completions:
            source = Source(call.id, answer.choice, call.prompt_ids_P, answer, forced)
            if answer.splice_key:
                self._sources.setdefault(answer.splice_key, []).append(source)
            elif isinstance(prompt, str):
                self._texts.append((prompt + answer.text, source))

    def earlier_text(self, prompt: str) -> tuple[int, Source] | None:
        """The longest text (prompt and answer) that ``prompt`` starts with, as (its length, source)."""
        found = [(len(text), source) for text, source in self._texts if prompt.startswith(text)]
        return max(found, key=lambda pair: pair[0], default=None)

    def earlier(self, names: Sequence[str], messages: Sequence[dict[str, Any]]) -> Iterator[tuple[int, Source]]:
        """What the request continues, longest first, as (number of its messages, source).

        Of equal answers the one whose tool-call ids the client echoes is meant, else the latest.
        """
        for count in range(len(messages), 1, -1):
            if messages[count - 1]["role"] == "assistant" and (found := self._sources.get(names[count])):
                echoed = _call_ids(messages[count - 1])
                yield count, next((s for s in reversed(found) if _call_ids(s.answer.message) == echoed), found[-1])


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

    Raises BadRequest where the template refuses them, and for what is far longer than a given ``context_length``.
    """
    names = chain(messages, tools)
    full = renderer.text(messages, tools, generation=True) + (forced.prefill if forced else "")
    _refuse_giant(renderer, full, context_length, "messages")
    drift = None
    for tries, (count, source) in enumerate(conversation.earlier(names, messages)):
        if tries == MOST_TRIES:
            break
        place = _end_of_answer(renderer, source, messages[:count], tools, full)
        if isinstance(place, int):
            kept, rest = _join(renderer, source.answer, renderer.encode(full[place:]))
            prefix = source.prompt_ids + source.answer.token_ids_T[:kept]
            parent = Parent(source.call_id, source.choice, kept)
            return Prompt(prefix + rest, names, parent, len(prefix), count, drift)
        drift = drift or {"continues": source.call_id, "message": count - 1, **place}
    return Prompt(renderer.encode(full), names, drift=drift)


def compose_text(
    renderer: Renderer, conversation: Conversation, text: str, *, context_length: int | None = None
) -> Prompt:
    """The prompt for plain ``text``: an earlier call's ids as far as it continues that call's text.

    Raises BadRequest for what is far longer than a given ``context_length``.
    """
    _refuse_giant(renderer, text, context_length, "prompt")
    if found := conversation.earlier_text(text):
        length, source = found
        kept = kept_ids(renderer, source.answer)
        if kept and renderer.is_special(source.answer.token_ids_T[kept - 1]):
            kept -= 1  # the end that was sampled is no part of the text that goes on
        if kept is not None:
            prefix = source.prompt_ids + source.answer.token_ids_T[:kept]
            rest = renderer.encode(text[length:])
            return Prompt(prefix + rest, [], Parent(source.call_id, source.choice, kept), len(prefix))
    return Prompt(renderer.encode(text, special=True), [])


def _refuse_giant(renderer: Renderer, text: str, context_length: int | None, param: str) -> None:
    if context_length is not None and (least := renderer.least_tokens(text)) >= context_length:
        raise prompt_too_long(context_length, f"more than {least} tokens", param)


def kept_ids(renderer: Renderer, answer: Completion) -> int | None:
    """How many sampled ids stand for the answer's text; none if a stop string begins inside a token."""
    ids = answer.token_ids_T
    if answer.stop_reason is None:
        return len(ids)
    for kept in range(len(ids), -1, -1):
        text = renderer.decode(ids[:kept])
        if len(text) <= len(answer.text):
            return kept if text == answer.text else None
    return None


def _end_of_answer(
    renderer: Renderer, source: Source, earlier: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]], full: str
) -> int | dict[str, str]:
    """Where in ``full`` the text of the source's answer ends, or how ``full`` departs from what the engine saw."""
    if kept_ids(renderer, source.answer) is None:
        return {"reason": "a stop string began inside a token", "saw": source.answer.text[-FRAGMENT:], "renders": ""}
    prefill, closing = (source.forced.prefill, source.forced.closing) if source.forced else ("", "")
    start = renderer.text(earlier[:-1], tools, generation=True) + prefill
    past = renderer.text(earlier, tools, generation=False)
    if not past.startswith(start):
        return _departure("the template writes the start of the answer's turn differently in history", start, past)
    tail = closing + renderer.end_of_turn
    if not past.endswith(tail) or len(past) - len(tail) < len(start):
        return {"reason": "the template does not end the turn as usual", "saw": tail, "renders": past[-FRAGMENT:]}
    end = len(past) - len(tail)
    if not full.startswith(past[:end]):
        return _departure("the template rewrites history", past[:end], full)
    if not _same_answer(renderer, source, past[len(start) : end]):
        rendered = past[len(start) : end]
        return _departure("the template rewrites the answer", source.answer.text, rendered)
    return end


def _same_answer(renderer: Renderer, source: Source, rendered: str) -> bool:
    """Whether the template's text of the answer says what was sampled, up to the whitespace around it."""
    answer = source.answer
    ids = answer.token_ids_T[: kept_ids(renderer, answer)]
    if ids and renderer.is_special(ids[-1]):
        ids = ids[:-1]
    sampled = {answer.text.strip(), renderer.decode(ids, special=True).strip()}
    if rendered.strip() in sampled:
        return True
    # A call's JSON is written anew by the template: it must mean the same.
    if (call_format := renderer.tool_format) is None:
        return False
    before, after = (source.forced.prefill, source.forced.closing) if source.forced else ("", "")

    def meaning(text: str) -> tuple[str, list[tuple[str, Any]]]:
        content, calls = call_format.parse(f"{before}{text}{after}")
        return content.strip(), [(call.name, json.loads(call.arguments)) for call in calls]

    return meaning(rendered) in [meaning(text) for text in sampled]


def _join(renderer: Renderer, answer: Completion, rest: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """How many sampled ids are kept and what follows them: an end of turn that was sampled is not written twice.

    A sampled end that is not the template's own is left out of what follows: the engine never continued after it.
    """
    kept = kept_ids(renderer, answer) or 0
    ended = answer.finish_reason == "stop" and answer.stop_reason is None
    if not ended or kept == 0 or not renderer.is_special(answer.token_ids_T[kept - 1]):
        return kept, rest
    if rest and rest[0] == answer.token_ids_T[kept - 1]:
        return kept, rest[1:]
    return kept - 1, rest


def _departure(reason: str, saw: str, renders: str) -> dict[str, str]:
    same = next((i for i, (a, b) in enumerate(zip(saw, renders, strict=False)) if a != b), min(len(saw), len(renders)))
    start = max(0, same - FRAGMENT // 4)
    return {"reason": reason, "saw": saw[start : start + FRAGMENT], "renders": renders[start : start + FRAGMENT]}


def _call_ids(message: dict[str, Any]) -> list[str]:
    return [call["id"] for call in message.get("tool_calls") or []]
