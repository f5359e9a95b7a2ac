"""The package behind the command `llm`: a chain of calls with a tool."""

import llm
from llm.default_plugins.openai_models import Chat
from weather import MODEL, QUESTION, SYSTEM, get_weather


def play(base_url: str, api_key: str) -> str:
    model = Chat(MODEL, model_name=MODEL, api_base=base_url, supports_tools=True)
    model.key = api_key
    return model.chain(
        QUESTION, system=SYSTEM, tools=[llm.Tool.function(get_weather)], key=api_key
    ).text()
