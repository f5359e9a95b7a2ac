"""Semantic Kernel: its chat completion agent with a plug-in."""

from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function
from weather import MODEL, QUESTION, SYSTEM, get_weather


class Weather:
    """The plug-in."""

    @kernel_function(description="Tell the weather of a city.")
    def get_weather(self, city: str) -> str:
        return get_weather(city)


async def play(base_url: str, api_key: str) -> str:
    async with AsyncOpenAI(base_url=base_url, api_key=api_key, max_retries=0) as client:
        service = OpenAIChatCompletion(ai_model_id=MODEL, async_client=client)
        agent = ChatCompletionAgent(
            service=service, name="forecaster", instructions=SYSTEM, plugins=[Weather()]
        )
        return str((await agent.get_response(messages=QUESTION)).message.content)
