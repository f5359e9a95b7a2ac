"""The anthropic package alone: a tool loop, plain, streamed, and by the package's own runner of
tools.
"""

import asyncio

from anthropic import Anthropic, AsyncAnthropic, beta_tool
from weather import (
    API_KEY,
    BASE_URL,
    MODEL,
    PARAMETERS,
    QUESTION,
    SECOND_QUESTION,
    SYSTEM,
    result_print,
    weather_of,
)

SERVER = BASE_URL.removesuffix("/v1")
TOOLS = [
    {
        "name": "get_weather",
        "description": "Tell the weather of a city.",
        "input_schema": PARAMETERS,
    }
]
OPTIONS = {"model": MODEL, "max_tokens": 256, "system": SYSTEM}


@beta_tool
def get_weather(city: str) -> str:
    """Tell the weather of a city.

    Args:
        city: Its name.
    """
    return weather_of(city)


def plain() -> list:
    """A loop by hand; the whole conversation."""
    messages = [{"role": "user", "content": QUESTION}]
    with Anthropic(base_url=SERVER, api_key=API_KEY) as client:
        while True:
            answer = client.messages.create(messages=messages, tools=TOOLS, **OPTIONS)
            messages.append({"role": "assistant", "content": answer.content})
            if answer.stop_reason != "tool_use":
                return messages
            messages.append({"role": "user", "content": results(answer)})


async def streamed(messages: list) -> list[str]:
    """Go on with ``messages``; the pieces of text as they came."""
    pieces: list[str] = []
    messages.append({"role": "user", "content": SECOND_QUESTION})
    async with AsyncAnthropic(base_url=SERVER, api_key=API_KEY) as client:
        while True:
            async with client.messages.stream(messages=messages, tools=TOOLS, **OPTIONS) as events:
                pieces += [text async for text in events.text_stream]
                answer = await events.get_final_message()
            messages.append({"role": "assistant", "content": answer.content})
            if answer.stop_reason != "tool_use":
                return pieces
            messages.append({"role": "user", "content": results(answer)})


def results(answer) -> list[dict]:
    calls = [block for block in answer.content if block.type == "tool_use"]
    return [
        {"type": "tool_result", "tool_use_id": call.id, "content": weather_of(**call.input)}
        for call in calls
    ]


def by_runner() -> str:
    """The package runs the tools itself."""
    with Anthropic(base_url=SERVER, api_key=API_KEY) as client:
        messages = [{"role": "user", "content": QUESTION}]
        runner = client.beta.messages.tool_runner(messages=messages, tools=[get_weather], **OPTIONS)
        return runner.until_done().content[0].text


conversation = plain()
answer = conversation[-1]["content"][0].text
result_print(answer=answer, pieces=asyncio.run(streamed(conversation)), by_runner=by_runner())
