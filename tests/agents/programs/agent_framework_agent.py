"""Microsoft Agent Framework: an agent with a tool, over the Responses dialect, its default."""

from agent_framework import Agent
from agent_framework.openai import OpenAIChatClient
from weather import MODEL, QUESTION, SYSTEM, get_weather


async def play(base_url: str, api_key: str) -> str:
    client = OpenAIChatClient(model=MODEL, base_url=base_url, api_key=api_key)
    return (await Agent(client, instructions=SYSTEM, tools=[get_weather]).run(QUESTION)).text
