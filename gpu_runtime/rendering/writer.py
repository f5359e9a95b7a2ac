"""Writes conversations in normal form by a chat template, in the form that this template takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpu_runtime.interfaces import Tokenizer
from gpu_runtime.rendering.fault_place import TEMPLATE_FAULTS, Dicts
from gpu_runtime.rendering.harmony import Harmony, as_written, tool_as_written
from gpu_runtime.rendering.marks import NO_MARKS, TextMarks
from gpu_runtime.rendering.system_text import SystemText
from gpu_runtime.rendering.tool_formats import written_in_content


@dataclass(frozen=True)
class Writer:
    """Writes by the chat template of ``tokenizer`` under ``variables``.

    ``harmony`` is set where the template reads messages under Harmony's names.
    ``calls_in_content``: it leaves out calls that stand elsewhere. ``marks`` stay text where a
    message holds them.
    """

    tokenizer: Tokenizer
    variables: Mapping[str, Any]
    system_text: SystemText
    harmony: Harmony | None = None
    calls_in_content: bool = False
    marks: TextMarks = NO_MARKS

    def text(self, messages: Dicts, tools: Dicts, *, generation: bool, now: datetime) -> str:
        """What the template writes; ``generation`` opens the assistant's turn. Raises one of
        ``TEMPLATE_FAULTS`` where the template refuses the conversation.
        """
        messages = self.system_text.written([self.marks.message(message) for message in messages])
        tools = [self.marks.tool(tool) for tool in tools]
        if self.harmony is not None:
            messages = [as_written(message) for message in messages]
            tools = [tool_as_written(tool) for tool in tools]
        if self.calls_in_content:
            messages = [written_in_content(message) for message in messages]
        return self.tokenizer.render(
            messages, tools, generation=generation, variables=self.variables, now=now
        )

    def probe(self, messages: Dicts, tools: Dicts = (), *, generation: bool = False) -> str | None:
        """The same of a probe; None where the template refuses it."""
        try:
            return self.text(messages, tools, generation=generation, now=datetime.now(UTC))
        except TEMPLATE_FAULTS:
            return None
