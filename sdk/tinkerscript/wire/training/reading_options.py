"""How a session reads what clients send and what its model answers."""

from typing import Literal

from pydantic import Field

from ..base import Request


class ReadingOptions(Request):
    """The part of a session's options that is about messages and answers."""

    # refuse: an agent that sends such an option by habit would never be trained, and must hear of
    # it at its first call.
    unsupported_sampling: Literal["refuse", "eval_only"] = Field(
        "refuse",
        description="Calls of training episodes that sample as the trainer cannot compute: "
        "refused, or their "
        "episode is evaluated and not trained.",
    )
    unsupported_effort: Literal["label", "refuse"] = Field(
        "label", description="Efforts that the template has not."
    )
    # Text: what a web page or a file holds ends no turn. Other servers write the mark.
    text_marks: Literal["text", "tokens"] = Field(
        "text",
        description="The letters of a template's mark (such as <|im_end|>) in a message are text, "
        "or the mark itself.",
    )
    # Lenient: as vLLM reads an answer in production, so that what is trained is what will be
    # called.
    tool_parsing: Literal["lenient", "strict"] = Field(
        "lenient",
        description="Calls with slips (a mark that is missing, a call inside thoughts) are read as "
        "vLLM reads them, "
        "or are plain text.",
    )
