"""AutoGen: a team whose next speaker is chosen by the model, one of them with a tool, streamed;
each agent is named.
"""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.teams import SelectorGroupChat
from autogen_core.models import ModelInfo
from autogen_ext.models.openai import OpenAIChatCompletionClient
from weather import API_KEY, BASE_URL, MODEL, QUESTION, SYSTEM, result_print, weather_of


def model_of(agent: str) -> OpenAIChatCompletionClient:
    """A client whose calls carry the agent's name."""
    info = ModelInfo(
        vision=False, function_calling=True, json_output=True, structured_output=True, family="unknown",
        multiple_system_messages=True,
    )  # fmt: skip
    headers = {"X-Agent": agent}
    return OpenAIChatCompletionClient(
        model=MODEL, base_url=BASE_URL, api_key=API_KEY, model_info=info, default_headers=headers
    )


async def get_weather(city: str) -> str:
    """Tell the weather of a city."""
    return weather_of(city)


async def main() -> None:
    clients = {name: model_of(name) for name in ("selector", "forecaster", "writer", "critic")}
    forecaster = AssistantAgent(
        "forecaster", clients["forecaster"], tools=[get_weather], system_message=SYSTEM,
        description="Knows the weather.", max_tool_iterations=3,
    )  # fmt: skip
    writer = AssistantAgent(
        "writer",
        clients["writer"],
        system_message="You write poems.",
        description="Writes.",
        model_client_stream=True,
    )
    critic = AssistantAgent(
        "critic",
        clients["critic"],
        system_message="Say APPROVE when the poem is good.",
        description="Criticises.",
    )
    team = SelectorGroupChat(
        [forecaster, writer, critic], model_client=clients["selector"], allow_repeated_speaker=True,
        termination_condition=TextMentionTermination("APPROVE", sources=["critic"]) | MaxMessageTermination(20),
    )  # fmt: skip
    kinds, said = [], []
    async for event in team.run_stream(task=f"{QUESTION} Then write a poem about it."):
        kinds.append(type(event).__name__)
        if kinds[-1] == "TextMessage":
            said.append([event.source, event.content])
    for client in clients.values():
        await client.close()
    result_print(said=said, pieces=kinds.count("ModelClientStreamingChunkEvent"))


asyncio.run(main())
