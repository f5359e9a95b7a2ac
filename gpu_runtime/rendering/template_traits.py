"""What a chat template does, read off probe renders: how a turn ends, whether and how thoughts,
tools and calls are written. Nothing of any model is assumed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gpu_runtime.interfaces import Tokenizer
from gpu_runtime.rendering import harmony, system_text, thoughts
from gpu_runtime.rendering.calls import gemma
from gpu_runtime.rendering.calls.probes import (
    PROBE,
    PROBE_RESULT,
    PROBE_TOOL,
    answered,
    calling,
    result,
    tool,
    user,
)
from gpu_runtime.rendering.marks import marks_probed
from gpu_runtime.rendering.system_text import SystemText
from gpu_runtime.rendering.thoughts import ThoughtFormat
from gpu_runtime.rendering.tool_formats import HERMES, ToolFormat, detect
from gpu_runtime.rendering.writer import Writer
from tinkerscript.wire.training.reading_options import ReadingOptions

DESCRIBED = re.compile(r'<tool_call>\s*\{"name":')  # how to call, in a prompt with tools


@dataclass(frozen=True)
class TemplateTraits:
    """What was read off one template. ``writer`` writes conversations in its way."""

    writer: Writer
    has_template: bool
    end_of_turn: str  # what is written after an assistant's text
    ends: tuple[str, ...]  # what may stand after an answer
    stop_ids: tuple[int, ...]  # tokens that end an answer beside the tokenizer's own end of turn
    special_marks: list[str]  # tokens of an answer before its text that are not read: channels
    thoughts: ThoughtFormat | None
    no_thoughts: str  # closes thoughts that a prompt opens, for an answer without any
    opens_thoughts_after_results: bool
    has_tools: bool
    tool_format: ToolFormat | None
    # Of a history with calls: whether they, several of one message, and their results are part of
    # the text.
    writes_calls: bool
    writes_many_calls: bool
    writes_results: bool


def traits_probed(
    tokenizer: Tokenizer, variables: Mapping[str, Any], options: ReadingOptions
) -> TemplateTraits:
    """The traits under ``variables``. Each probe is written as those before it have shown."""
    writer = Writer(tokenizer, variables, SystemText())
    has_template = writer.probe(user()) is not None
    prompt, turn = writer.probe(user(), generation=True) or "", writer.probe(answered()) or ""
    end_of_turn = turn.rpartition(PROBE * 2)[2]
    start = turn.removeprefix(prompt).partition(PROBE * 2)[0] if turn.startswith(prompt) else None
    writer = replace(writer, harmony=harmony.probed(turn, partial(_special_id, tokenizer)))

    with_tool = writer.probe(user(), [tool()]) or ""
    tools = [tool()] if PROBE_TOOL in with_tool else []
    calls, in_content = _calls_probed(writer, with_tool) if tools else (None, False)
    writer = replace(writer, calls_in_content=in_content)
    loop = [*user(), calling("probe1234"), result()]
    history = writer.probe(loop, tools)
    both = writer.probe([*user(), calling("probe1234", "probe5678")], tools) or ""
    writes_many_calls = "of_probe1234" in both and "of_probe5678" in both
    if calls is not None:
        is_lenient = options.tool_parsing == "lenient"
        calls = replace(calls, single=not writes_many_calls, is_lenient=is_lenient)

    found = _thoughts_probed(writer, prompt, calls)
    opens_after_results = bool(tools) and found is not None and _opens_after(writer, loop, found)
    writer = replace(writer, system_text=system_text.probed(writer.probe))
    after_calls = calls.ends_answer if calls else ""
    if options.text_marks == "text":
        marks = marks_probed(
            tokenizer,
            turns=(writer.probe([*answered(), *user()]) or "") + end_of_turn,
            loop=(history or "") + (calls.marks if calls else "") + after_calls,
            thoughts=f"{found.opening}\n{found.closing}" if found else "",
        )
        writer = replace(writer, marks=marks)
    if writer.harmony is None:
        ends = tuple(filter(None, [end_of_turn, after_calls]))
        stop_ids = tuple(_special_tokens(tokenizer, after_calls)[:1])
        unread = _special_tokens(tokenizer, start or "")
    else:
        ends, stop_ids, unread = harmony.ENDS, writer.harmony.stop_ids, []
    return TemplateTraits(
        writer=writer,
        has_template=has_template,
        end_of_turn=end_of_turn,
        ends=ends,
        stop_ids=stop_ids,
        special_marks=[tokenizer.entry(token) for token in unread],
        thoughts=found,
        no_thoughts=thoughts.no_thoughts(found, start),
        opens_thoughts_after_results=opens_after_results,
        has_tools=bool(tools),
        tool_format=calls,
        # Where the template refuses such a history, a request is refused in its words.
        writes_calls=history is None or "of_probe1234" in history,
        writes_many_calls=writes_many_calls,
        writes_results=history is None or PROBE_RESULT in history,
    )


def _calls_probed(writer: Writer, with_tool: str) -> tuple[ToolFormat | None, bool]:
    """How calls are written, and whether they stand in the content; ``with_tool`` is a prompt with
    a tool.
    """
    history = writer.probe([*user(), calling("probe1234")], [tool()]) or ""
    call = history.removeprefix(with_tool)
    if writer.harmony is not None:
        is_read = harmony.FUNCTIONS + PROBE_TOOL in call
        return (harmony.HARMONY_CALLS if is_read else None), False
    found, in_content = detect(call, PROBE_TOOL), False
    if found is None and DESCRIBED.search(with_tool) and PROBE_TOOL not in call:
        found, in_content = HERMES, True
    if found is None:
        return None, False
    id_of = partial(_special_id, writer.tokenizer)
    with_ids = replace(
        found,
        marker_id=id_of(found.marker),
        arguments_mark_id=id_of(found.arguments_mark),
        id_mark_id=id_of(found.id_mark),
        end_id=id_of(found.list_frame[1]) if found.ends_answer else None,
        quote_id=id_of(found.quote),
    )
    return with_ids, in_content


def _thoughts_probed(writer: Writer, prompt: str, calls: ToolFormat | None) -> ThoughtFormat | None:
    if writer.harmony is not None:
        return harmony.THOUGHTS
    if found := thoughts.probed(writer.probe, prompt):
        return found
    # Revisions of Gemma 4's template leave them out of some histories or of all: what is
    # sampled has them.
    return gemma.THOUGHTS if calls is not None and calls.style == "gemma" else None


def _opens_after(writer: Writer, loop: list[dict[str, Any]], found: ThoughtFormat) -> bool:
    """Whether the prompt behind a result opens thoughts where the first prompt does not."""
    if found.begins_inside:
        return False
    return (writer.probe(loop, generation=True) or "").rstrip().endswith(found.opening)


def _special_id(tokenizer: Tokenizer, mark: str) -> int | None:
    return next(iter(_special_tokens(tokenizer, mark)), None)


def _special_tokens(tokenizer: Tokenizer, text: str) -> list[int]:
    return [token for token in tokenizer.encode(text) if token in tokenizer.special_ids]
