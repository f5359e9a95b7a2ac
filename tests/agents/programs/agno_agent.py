"""Agno: an agent with a tool."""

from agno.agent import Agent
from agno.models.openai.like import OpenAILike
from weather import MODEL, QUESTION, SYSTEM, get_weather


def play(base_url: str, api_key: str) -> str:
    model = OpenAILike(id=MODEL, base_url=base_url, api_key=api_key, max_retries=0)
    return (
        Agent(model=model, instructions=SYSTEM, tools=[get_weather], telemetry=False)
        .run(QUESTION)
        .content
    )
