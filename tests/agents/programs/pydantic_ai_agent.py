"""pydantic-ai: an agent with a tool."""

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from weather import MODEL, QUESTION, SYSTEM, get_weather


def play(base_url: str, api_key: str) -> str:
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=base_url, api_key=api_key))
    return Agent(model, instructions=SYSTEM, tools=[get_weather]).run_sync(QUESTION).output
