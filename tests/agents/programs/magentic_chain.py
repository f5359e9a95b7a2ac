"""magentic: a function that is a prompt, whose tools the package calls until there is text."""

from magentic import OpenaiChatModel, prompt_chain
from weather import MODEL, QUESTION, get_weather


def play(base_url: str, api_key: str) -> str:
    @prompt_chain(
        QUESTION,
        functions=[get_weather],
        model=OpenaiChatModel(MODEL, base_url=base_url, api_key=api_key),
    )
    def ask() -> str:
        """The weather of both cities."""

    return ask()
