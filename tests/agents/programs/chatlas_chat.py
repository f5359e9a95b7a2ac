"""chatlas, which speaks the Responses dialect and streams."""

from chatlas import ChatOpenAI
from weather import MODEL, QUESTION, SYSTEM, get_weather


def play(base_url: str, api_key: str) -> str:
    chat = ChatOpenAI(system_prompt=SYSTEM, model=MODEL, base_url=base_url, api_key=api_key)
    chat.register_tool(get_weather)
    return str(chat.chat(QUESTION, echo="none"))
