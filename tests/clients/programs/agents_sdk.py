"""OpenAI's Agents SDK: a hand-over from one agent to another, tools, and a streamed second turn."""

import asyncio

from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
from openai import AsyncOpenAI
from weather import (
    API_KEY,
    ARGUMENTS,
    BASE_URL,
    MODEL,
    QUESTION,
    SECOND_QUESTION,
    SYSTEM,
    result_print,
    weather_of,
)

KINDS = {"responses": OpenAIResponsesModel, "chat": OpenAIChatCompletionsModel}


@function_tool
def get_weather(city: str) -> str:
    """Tell the weather of a city."""
    return weather_of(city)


async def main() -> None:
    async with AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY) as client:
        model = KINDS[ARGUMENTS[0]](model=MODEL, openai_client=client)
        forecaster = Agent(name="forecaster", instructions=SYSTEM, model=model, tools=[get_weather])
        triage = Agent(
            name="triage",
            instructions="Hand the question over.",
            model=model,
            handoffs=[forecaster],
        )
        first = await Runner.run(triage, QUESTION)
        items = [*first.to_input_list(), {"role": "user", "content": SECOND_QUESTION}]
        second = Runner.run_streamed(forecaster, items)
        pieces = []
        async for event in second.stream_events():
            if (
                event.type == "raw_response_event"
                and event.data.type == "response.output_text.delta"
            ):
                pieces.append(event.data.delta)
    result_print(
        answer=first.final_output,
        last_agent=first.last_agent.name,
        pieces=pieces,
        second=second.final_output,
    )


asyncio.run(main())
