"""Messages to text, text to ids, ids to text, by the model's own tokenizer and chat template."""

import json
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from gpu_runtime.interfaces import Tokenizer
from gpu_runtime.refusals import BadRequest
from gpu_runtime.rendering.fault_place import TEMPLATE_FAULTS, Dicts, refusal
from gpu_runtime.rendering.marks import BREAK, MarkedText
from gpu_runtime.rendering.template_traits import traits_probed
from gpu_runtime.rendering.thoughts import ThoughtFormat
from gpu_runtime.rendering.tool_formats import ToolFormat
from tinkerscript.wire.training.reading_options import ReadingOptions

MAX_VARIANTS = 32  # renderers under variables that are kept
DEFAULTS = ReadingOptions()


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
        # for templates that write the date
        self.now: Callable[[], datetime] = partial(datetime.now, UTC)
        self._token_texts: dict[int, str] = {}
        self._variants: dict[str, Renderer] = {}
        self.traits = traits = traits_probed(tokenizer, self.variables, config)
        self.system_text, self.harmony = traits.writer.system_text, traits.writer.harmony
        self.ends, self.stop_ids = traits.ends, traits.stop_ids
        self.thoughts, self.tool_format = traits.thoughts, traits.tool_format
        self.writes_calls, self.writes_results = traits.writes_calls, traits.writes_results
        self.writes_many_calls = traits.writes_many_calls

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

    def text(self, messages: Dicts, tools: Dicts, *, generation: bool) -> str:
        """The conversation in normal form as the template writes it; ``generation`` opens the
        assistant's turn.

        Raises BadRequest with the template's own words where it refuses the conversation.
        """
        written = partial(self.traits.writer.text, generation=generation, now=self.now())
        try:
            return written(messages, tools)
        except TEMPLATE_FAULTS as error:
            raise refusal(error, messages, tools, written, self.variables) from None

    def thoughts_after(
        self, messages: Dicts, calls: ToolFormat | None = None
    ) -> ThoughtFormat | None:
        """How thoughts stand in an answer to ``messages`` (normal form) that may have ``calls``:
        Gemma 4's prompt opens them after a result.
        """
        if self.thoughts is None:
            return None
        return replace(
            self.thoughts,
            begins_inside=self.thoughts.begins_inside or self._opens_thoughts(messages),
            or_before=calls.ends_thoughts if calls else (),
        )

    def prefill(self, forced: ToolFormat | None, messages: Dicts) -> str:
        """What is put behind the prompt of ``messages`` so that the answer is a call: it closes
        thoughts that the prompt opens.
        """
        if forced is None:
            return ""
        if self.thoughts is not None and self._opens_thoughts(messages):
            return self.thoughts.closing + forced.prefill
        return self.traits.no_thoughts + forced.prefill

    def _opens_thoughts(self, messages: Dicts) -> bool:
        """Whether the prompt opens thoughts because a result is the last of ``messages``."""
        return self.traits.opens_thoughts_after_results and messages[-1]["role"] == "tool"

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
        marks = self.traits.writer.marks
        return (*begin, *marks.encode(text, self._tokenizer.encode, self._tokenizer.encode_text))

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
