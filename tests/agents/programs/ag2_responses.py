"""AG2 over the Responses dialect, streamed."""

from ag2 import Agent, tool
from ag2.config.openai import OpenAIResponsesConfig
from weather import MODEL, QUESTION, SYSTEM, get_weather


async def play(base_url: str, api_key: str) -> str:
    config = OpenAIResponsesConfig(model=MODEL, base_url=base_url, api_key=api_key, streaming=True)
    reply = await Agent("forecaster", SYSTEM, config=config, tools=[tool(get_weather)]).ask(
        QUESTION
    )
    return str(reply.body)
