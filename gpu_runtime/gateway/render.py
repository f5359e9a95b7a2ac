"""The model's own tokenizer and chat template: messages to text, text to ids, ids to text.

What the gateway must know of a template (how a turn ends, whether and how tools are written) is read off probe renders:
nothing of any model is assumed.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jinja2
from transformers import AutoTokenizer

from gpu_runtime.gateway.errors import BadRequest
from gpu_runtime.gateway.tool_calls import ToolFormat, detect

PROBE, PROBE_TOOL = "probe", "probe_tool"


class Renderer:
    """Example: ``Renderer(folder).encode("hello")``. Reads ``folder`` only; raises OSError where it is no tokenizer."""

    def __init__(self, folder: str) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._special = {*self._tokenizer.all_special_ids} | {
            token_id for token_id, token in self._tokenizer.added_tokens_decoder.items() if token.special
        }
        self._token_texts: dict[int, str] = {}
        self._longest_token = max(map(len, self._tokenizer.get_vocab()))
        self.end_of_turn = self._probe_end_of_turn()
        self.has_tools = PROBE_TOOL in (self._probe(_user(), tools=[_tool()]) or "")
        self.tool_format = self._probe_tool_format()

    def text(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]], *, generation: bool) -> str:
        """The conversation in normal form as the template writes it; ``generation`` opens the assistant's turn.

        Raises BadRequest with the template's own words where it refuses the conversation.
        """
        try:
            return self._tokenizer.apply_chat_template(
                list(messages), tools=list(tools) or None, add_generation_prompt=generation, tokenize=False
            )
        except jinja2.TemplateError as error:
            raise BadRequest(f"the model's chat template refuses these messages: {error}", param="messages") from None
        except (TypeError, ValueError) as error:
            raise BadRequest(f"the model has no chat template for these messages: {error}", param="messages") from None

    @property
    def vocabulary(self) -> int:
        """How many token ids there are."""
        return len(self._tokenizer)

    def least_tokens(self, text: str) -> int:
        """A lower bound on the tokens of ``text`` that costs nothing, for texts that are far too long to be encoded.

        No token stands for more characters than its own has; a normal form such as NFC makes at most one of four.
        """
        return len(text) // (4 * self._longest_token)

    def encode(self, text: str, *, special: bool = False) -> tuple[int, ...]:
        """Ids of ``text`` as it is: a template has written its special tokens. ``special`` adds those of plain text."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=special))

    def decode(self, token_ids: Sequence[int], *, special: bool = False) -> str:
        """Text of ids, with or without special tokens."""
        return self._tokenizer.decode(
            list(token_ids), skip_special_tokens=not special, clean_up_tokenization_spaces=False
        )

    def is_special(self, token_id: int) -> bool:
        """Whether the token is a mark (such as an end of turn) and no text."""
        return token_id in self._special

    def token_text(self, token_id: int) -> str:
        """One token alone; bytes that are no character of their own show as U+FFFD."""
        if token_id not in self._token_texts:
            self._token_texts[token_id] = self.decode([token_id], special=True)
        return self._token_texts[token_id]

    def _probe(self, messages: list[dict[str, Any]], tools: Sequence[dict[str, Any]] = ()) -> str | None:
        try:
            return self.text(messages, tools, generation=False)
        except BadRequest:
            return None

    def _probe_end_of_turn(self) -> str:
        """What the template writes after an assistant's text."""
        rendered = self._probe([*_user(), {"role": "assistant", "content": PROBE * 2}]) or ""
        return rendered.rpartition(PROBE * 2)[2]

    def _probe_tool_format(self) -> ToolFormat | None:
        if not self.has_tools:
            return None
        function = {"name": PROBE_TOOL, "arguments": {PROBE: PROBE}}
        # Nine letters and digits: Mistral's templates insist.
        call = {"id": "probe1234", "type": "function", "function": function}
        turn = {"role": "assistant", "content": "", "tool_calls": [call]}
        before = self._probe(_user(), tools=[_tool()]) or ""
        after = self._probe([*_user(), turn], tools=[_tool()]) or ""
        found = detect(after.removeprefix(before), PROBE_TOOL)
        return found and replace(found, marker_id=next(filter(self.is_special, self.encode(found.marker)), None))


def _user() -> list[dict[str, Any]]:
    return [{"role": "user", "content": "x"}]


def _tool() -> dict[str, Any]:
    parameters = {"type": "object", "properties": {PROBE: {"type": "string", "description": "x"}}, "required": [PROBE]}
    return {"type": "function", "function": {"name": PROBE_TOOL, "description": "x", "parameters": parameters}}
