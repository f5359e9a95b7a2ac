"""Messages to text, text to ids, ids to text, by the model's own tokenizer and chat template.

What the gateway must know of a template (how a turn ends, whether and how tools are written) is
read off probe renders: nothing of any model is assumed.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from gpu_runtime.interfaces import Tokenizer
from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering import harmony, system_text, thoughts
from gpu_runtime.rendering.calls import gemma
from gpu_runtime.rendering.calls.probes import (
    PROBE,
    PROBE_RESULT,
    PROBE_TOOL,
    calling,
    result,
    tool,
    user,
)
from gpu_runtime.rendering.fault_place import TEMPLATE_FAULTS, refusal
from gpu_runtime.rendering.marks import BREAK, NO_MARKS, MarkedText, TextMarks, marks_probed
from gpu_runtime.rendering.system_text import SystemText
from gpu_runtime.rendering.thoughts import ThoughtFormat
from gpu_runtime.rendering.tool_formats import HERMES, ToolFormat, detect, written_in_content
from tinkerscript.wire.training.reading_options import ReadingOptions

MAX_VARIANTS = 32  # renderers under variables that are kept
DEFAULTS = ReadingOptions()
DESCRIBED = re.compile(r'<tool_call>\s*\{"name":')  # how to call, in a prompt with tools


class Renderer:
    """Example: ``Renderer(tokenizer).encode("hello")``."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        variables: Mapping[str, Any] | None = None,
        *,
        config: ReadingOptions = DEFAULTS,
    ) -> None:
        self._tokenizer, self.variables, self._config = tokenizer, dict(variables or {}), config
        self._marks = NO_MARKS  # there are none in the probes
        # for templates that write the date
        self.now: Callable[[], datetime] = partial(datetime.now, UTC)
        self._token_texts: dict[int, str] = {}
        self._variants: dict[str, Renderer] = {}
        self._calls_in_content, self.harmony = False, None
        self.system_text = SystemText()
        self.has_template = self._probe(user()) is not None
        self.end_of_turn = self._probe_end_of_turn()
        self.harmony = self._probe_harmony()
        self.has_tools = PROBE_TOOL in (self._probe(user(), tools=[tool()]) or "")
        self.tool_format = self._probe_tool_format()
        # Of a history with calls: whether they, several of one message, and their results are part
        # of the text.
        self.writes_calls, self.writes_results = self._probe_loop()
        self.writes_many_calls = self._probe_many_calls()
        if self.tool_format is not None:
            self.tool_format = replace(
                self.tool_format,
                single=not self.writes_many_calls,
                is_lenient=config.tool_parsing == "lenient",
            )
        self.thoughts = self._probe_thoughts()
        self._no_thoughts = thoughts.probed_end(self.thoughts, self._probe, self._prompt_of(user()))
        self.system_text = system_text.probed(self._probe)
        self._opens_thoughts_after_results = self._probe_thoughts_after_results()
        self._marks = NO_MARKS if config.text_marks == "tokens" else self._probe_marks()

    @property
    def template_variables(self) -> frozenset[str]:
        """What the template reads beside the conversation and its tools."""
        return self._tokenizer.template_variables

    @property
    def described(self) -> Mapping[str, str | None]:
        """The chat template and the special tokens by their names."""
        return self._tokenizer.described

    def with_variables(self, variables: Mapping[str, Any]) -> "Renderer":
        """The renderer of this template under ``variables``: they may change how turns begin and
        end, so it is probed under them. Raises BadRequest for one that the template does not read.
        """
        if not variables:
            return self
        if unknown := sorted(set(variables) - self.template_variables):
            known = ", ".join(sorted(self.template_variables)) or "none"
            raise BadRequest(
                f"the model's chat template does not read {unknown[0]!r}; the variables that it "
                f"reads: {known}",
                hint="Leave it out: it would change nothing.",
                param="chat_template_kwargs",
                openai_code="unsupported_parameter",
            )
        name = json.dumps(variables, sort_keys=True)
        if name not in self._variants:
            if len(self._variants) == MAX_VARIANTS:
                del self._variants[next(iter(self._variants))]
            self._variants[name] = Renderer(self._tokenizer, variables, config=self._config)
        return self._variants[name].with_clock(self.now)

    def at(self, time: float) -> "Renderer":
        """The renderer of the day of ``time`` (Unix seconds, the day in UTC), for templates that
        write the date: that of an episode's begin holds for all its calls, so that midnight changes
        no conversation.
        """
        # not the machine's zone: the next runtime's may be another
        day = datetime.fromtimestamp(time, tz=UTC)
        return self.with_clock(lambda: day)

    def with_clock(self, now: Callable[[], datetime]) -> "Renderer":
        """The same renderer, which takes ``now`` for the time."""
        twin = copy(self)
        twin.now = now
        return twin

    def text(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        *,
        generation: bool,
    ) -> str:
        """The conversation in normal form as the template writes it; ``generation`` opens the
        assistant's turn.

        Raises BadRequest with the template's own words where it refuses the conversation.
        """
        written = partial(self._written, generation=generation)
        try:
            return written(messages, tools)
        except TEMPLATE_FAULTS as error:
            raise refusal(error, messages, tools, written, self.variables) from None

    def _written(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        *,
        generation: bool,
    ) -> str:
        messages = self.system_text.written([self._marks.message(message) for message in messages])
        tools = [self._marks.tool(tool) for tool in tools]
        if self.harmony is not None:
            messages = [harmony.as_written(message) for message in messages]
            tools = [harmony.tool_as_written(tool) for tool in tools]
        if self._calls_in_content:
            messages = [written_in_content(message) for message in messages]
        return self._tokenizer.render(
            messages, tools, generation=generation, variables=self.variables, now=self.now()
        )

    def thoughts_after(
        self, messages: Sequence[dict[str, Any]], calls: ToolFormat | None = None
    ) -> ThoughtFormat | None:
        """How thoughts stand in an answer to ``messages`` (normal form) that may have ``calls``:
        Gemma 4's prompt opens them after a result.
        """
        found = self.thoughts
        if (
            found is not None
            and self._opens_thoughts_after_results
            and messages[-1]["role"] == "tool"
        ):
            found = replace(found, begins_inside=True)
        return (
            replace(found, or_before=calls.ends_thoughts)
            if found and calls and calls.ends_thoughts
            else found
        )

    def prefill(self, forced: ToolFormat | None, messages: Sequence[dict[str, Any]]) -> str:
        """What is put behind the prompt of ``messages`` so that the answer is a call: it closes
        thoughts that the prompt opens.
        """
        if forced is None:
            return ""
        after = self.thoughts_after(messages)
        opens_alone = after is not None and after is not self.thoughts
        return (after.closing if after and opens_alone else self._no_thoughts) + forced.prefill

    @property
    def ends(self) -> tuple[str, ...]:
        """What may stand after an answer in the template's text."""
        after_calls = self.tool_format.ends_answer if self.tool_format else ""
        return (
            harmony.ENDS
            if self.harmony is not None
            else tuple(filter(None, [self.end_of_turn, after_calls]))
        )

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end an answer beside the tokenizer's own end of turn."""
        if self.harmony is not None:
            return self.harmony.stop_ids
        stop = self._special_id(self.tool_format.ends_answer) if self.tool_format else None
        return () if stop is None else (stop,)

    @property
    def vocabulary(self) -> int:
        """How many token ids there are."""
        return self._tokenizer.size

    def least_tokens(self, text: str) -> int:
        """A lower bound on the tokens of ``text`` that costs nothing, for texts that are far too
        long to be encoded.

        No token stands for more characters than its own has; a normal form such as NFC makes at
        most one of four.
        """
        return len(text) // (4 * self._tokenizer.longest_token)

    def encode(self, text: str, *, special: bool = False) -> tuple[int, ...]:
        """Ids of ``text`` as it is: a template has written its special tokens. ``special`` adds
        those of plain text.
        """
        if BREAK not in text:
            return tuple(self._tokenizer.encode(text, special=special))
        begin = self._tokenizer.encode("", special=special)
        return (
            *begin,
            *self._marks.encode(text, self._tokenizer.encode, self._tokenizer.encode_text),
        )

    def decode(self, token_ids: Sequence[int], *, special: bool = False) -> str:
        """Text of ids, with or without special tokens."""
        return self._tokenizer.decode(token_ids, special=special)

    def is_special(self, token_id: int) -> bool:
        """Whether the token is a mark (such as an end of turn) and no text."""
        return token_id in self._tokenizer.special_ids

    def entry(self, token_id: int) -> str:
        """The token as the vocabulary names it."""
        return self._tokenizer.entry(token_id)

    def token_text(self, token_id: int) -> str:
        """One token alone; bytes that are no character of their own show as U+FFFD."""
        if token_id not in self._token_texts:
            self._token_texts[token_id] = self.decode([token_id], special=True)
        return self._token_texts[token_id]

    def marked_text(self, thoughts: ThoughtFormat | None, calls: ToolFormat | None) -> MarkedText:
        """Writes the special tokens of these formats into the text of one answer."""
        marks = (thoughts.opening + thoughts.closing if thoughts else "") + (
            calls.marks if calls else ""
        )
        special = filter(self.is_special, self.encode(marks))
        return MarkedText({token: self.token_text(token) for token in special}, self.decode)

    def _probe(
        self, messages: list[dict[str, Any]], tools: Sequence[dict[str, Any]] = ()
    ) -> str | None:
        try:
            return self.text(messages, tools, generation=False)
        except BadRequest:
            return None

    def _probe_end_of_turn(self) -> str:
        """What the template writes after an assistant's text."""
        rendered = self._probe([*user(), {"role": "assistant", "content": PROBE * 2}]) or ""
        return rendered.rpartition(PROBE * 2)[2]

    def _probe_harmony(self) -> harmony.Harmony | None:
        """Set where the template writes channels, and their marks are special tokens."""
        rendered = self._probe([*user(), {"role": "assistant", "content": PROBE * 2}]) or ""
        ids = {mark: self._special_id(mark) for mark in harmony.MARKS}
        known = {mark: token for mark, token in ids.items() if token is not None}
        is_written = f"{harmony.CHANNEL}final{harmony.MESSAGE}{PROBE}" in rendered
        return (
            harmony.Harmony(known)
            if is_written and len(set(known.values())) == len(harmony.MARKS)
            else None
        )

    def special_marks(self) -> list[str]:
        """Special tokens that the template wants inside of an answer, before its text: channels
        that are not read.
        """
        if self.harmony is not None:
            return []
        prompt, written = (
            self._prompt_of(user()),
            self._probe([*user(), {"role": "assistant", "content": PROBE * 2}]),
        )
        marks = (
            ""
            if written is None or not written.startswith(prompt)
            else written.removeprefix(prompt)
        )
        marks = marks.partition(PROBE)[0]
        return [self.entry(token) for token in self.encode(marks) if self.is_special(token)]

    def _probe_thoughts(self) -> ThoughtFormat | None:
        if self.harmony is not None:
            return harmony.THOUGHTS
        if found := thoughts.probed(self._probe, self._prompt_of(user())):
            return found
        # Revisions of Gemma 4's template leave them out of some histories or of all: what is
        # sampled has them.
        return gemma.THOUGHTS if self.tool_format and self.tool_format.style == "gemma" else None

    def _probe_thoughts_after_results(self) -> bool:
        if self.thoughts is None or self.thoughts.begins_inside or not self.has_tools:
            return False
        prompt = self._prompt_of([*user(), calling("probe1234"), result()])
        return prompt.rstrip().endswith(self.thoughts.opening)

    def _prompt_of(self, messages: list[dict[str, Any]]) -> str:
        try:
            return self.text(messages, [], generation=True)
        except BadRequest:
            return ""

    def _probe_tool_format(self) -> ToolFormat | None:
        if not self.has_tools:
            return None
        before = self._probe(user(), tools=[tool()]) or ""
        after = self._probe([*user(), calling("probe1234")], tools=[tool()]) or ""
        if self.harmony is not None:
            return (
                harmony.HARMONY_CALLS
                if harmony.FUNCTIONS + PROBE_TOOL in after.removeprefix(before)
                else None
            )
        found = detect(after.removeprefix(before), PROBE_TOOL)
        if (
            found is None
            and DESCRIBED.search(before)
            and PROBE_TOOL not in after.removeprefix(before)
        ):
            found, self._calls_in_content = HERMES, True
        if found is None:
            return None
        return replace(
            found,
            marker_id=self._special_id(found.marker),
            arguments_mark_id=self._special_id(found.arguments_mark),
            id_mark_id=self._special_id(found.id_mark),
            end_id=self._special_id(found.list_frame[1]) if found.ends_answer else None,
            quote_id=self._special_id(found.quote),
        )

    def _probe_loop(self) -> tuple[bool, bool]:
        """True for both where the template refuses such a history: then a request gets its
        words.
        """
        tools = [tool()] if self.has_tools else []
        rendered = self._probe([*user(), calling("probe1234"), result()], tools=tools)
        return (
            (True, True)
            if rendered is None
            else ("of_probe1234" in rendered, PROBE_RESULT in rendered)
        )

    def _probe_many_calls(self) -> bool:
        tools = [tool()] if self.has_tools else []
        rendered = self._probe([*user(), calling("probe1234", "probe5678")], tools=tools) or ""
        return "of_probe1234" in rendered and "of_probe5678" in rendered

    def _probe_marks(self) -> TextMarks:
        turns = (
            self._probe([*user(), {"role": "assistant", "content": PROBE * 2}, *user()]) or ""
        ) + self.end_of_turn
        loop = (
            self._probe(
                [*user(), calling("probe1234"), result()], tools=[tool()] if self.has_tools else []
            )
            or ""
        )
        loop += self.tool_format.marks + self.tool_format.ends_answer if self.tool_format else ""
        around = f"{self.thoughts.opening}\n{self.thoughts.closing}" if self.thoughts else ""
        special = set(map(self.entry, self._tokenizer.special_ids))
        return marks_probed(self._tokenizer, special, turns=turns, loop=loop, thoughts=around)

    def _special_id(self, mark: str) -> int | None:
        return next(filter(self.is_special, self.encode(mark)), None)
