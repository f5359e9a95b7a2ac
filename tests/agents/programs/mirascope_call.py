"""mirascope: a call with a tool, resumed with the tools' results."""

from mirascope import llm
from weather import MODEL, QUESTION, SYSTEM, get_weather


def play(base_url: str, api_key: str) -> str:
    llm.register_provider(
        "openai:completions", scope=f"openai/{MODEL}", base_url=base_url, api_key=api_key
    )

    @llm.call(f"openai/{MODEL}", tools=[llm.tool(get_weather)])
    def ask() -> list:
        return [llm.messages.system(SYSTEM), llm.messages.user(QUESTION)]

    response = ask()
    while response.tool_calls:
        response = response.resume(response.execute_tools())
    return "".join(part.text for part in response.texts)
