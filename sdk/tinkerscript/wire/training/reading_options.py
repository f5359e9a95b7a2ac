"""How a session reads what clients send, the names that they give the model among it, and what its
model answers.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ..base import Request

MAX_NAMES, MAX_NAME, MAX_AGENT = 64, 256, 128


def _checked(value: Any) -> Any:
    """One error in words, where a union would report each of its members."""
    if value in ("own", "any"):
        return value
    if not isinstance(value, dict) or not 1 <= len(value) <= MAX_NAMES:
        raise ValueError(f"'own', 'any', or a map of 1 to {MAX_NAMES} names to their agents")
    for name, agent in value.items():
        for said, most in ((name, MAX_NAME), (agent, MAX_AGENT)):
            if not isinstance(said, str) or not 1 <= len(said) <= most:
                raise ValueError(
                    f"a name is a text of 1 to {MAX_NAME} characters, an agent's of 1 to "
                    f"{MAX_AGENT}"
                )
    return value


# A map holds the agent that each name is the model of. The session's model has its own names in any
# case.
ModelNames = Annotated[Literal["own", "any"] | dict[str, str], BeforeValidator(_checked)]


class ReadingOptions(Request):
    """The part of a session's options that is about messages and answers."""

    # refuse: an agent that sends such an option by habit would never be trained, and must hear of
    # it at its first call.
    unsupported_sampling: Literal["refuse", "eval_only"] = Field(
        "refuse",
        description="Calls of training episodes that sample as the trainer cannot compute: "
        "refused, or their episode is evaluated and not trained.",
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
        "vLLM reads them, or are plain text.",
    )
