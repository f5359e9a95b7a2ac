"""Strands: an agent with a tool, which streams every call."""

from strands import Agent, tool
from strands.models.openai import OpenAIModel
from weather import MODEL, QUESTION, SYSTEM, get_weather


def play(base_url: str, api_key: str) -> str:
    model = OpenAIModel(
        client_args={"base_url": base_url, "api_key": api_key, "max_retries": 0}, model_id=MODEL
    )
    agent = Agent(
        model=model, tools=[tool(get_weather)], system_prompt=SYSTEM, callback_handler=None
    )
    return str(agent(QUESTION))
