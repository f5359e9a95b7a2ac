"""AutoGen: an assistant that goes on until it needs no tool."""

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ModelInfo
from autogen_ext.models.openai import OpenAIChatCompletionClient
from weather import MODEL, QUESTION, SYSTEM, get_weather


async def weather_tool(city: str) -> str:
    """Tell the weather of a city."""
    return get_weather(city)


async def play(base_url: str, api_key: str) -> str:
    info = ModelInfo(
        vision=False, function_calling=True, json_output=True, structured_output=True, family="unknown",
        multiple_system_messages=True,
    )  # fmt: skip
    client = OpenAIChatCompletionClient(
        model=MODEL, base_url=base_url, api_key=api_key, model_info=info, max_retries=0
    )
    weather_tool.__name__ = "get_weather"
    agent = AssistantAgent(
        "forecaster", client, tools=[weather_tool], system_message=SYSTEM, max_tool_iterations=5
    )
    result = await agent.run(task=QUESTION)
    await client.close()
    return result.messages[-1].content
