"""Haystack: its agent component."""

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import Tool
from haystack.utils import Secret
from weather import FUNCTION, MODEL, QUESTION, SYSTEM, get_weather


def play(base_url: str, api_key: str) -> str:
    generator = OpenAIChatGenerator(
        model=MODEL, api_base_url=base_url, api_key=Secret.from_token(api_key), max_retries=0
    )
    agent = Agent(
        chat_generator=generator,
        tools=[Tool(function=get_weather, **FUNCTION)],
        system_prompt=SYSTEM,
    )
    agent.warm_up()
    return agent.run(messages=[ChatMessage.from_user(QUESTION)])["messages"][-1].text
