"""LiteLLM: a tool loop, sync and async, whole and streamed, in all three dialects."""

import asyncio
import json

import litellm
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

FUNCTION = {
    "name": "get_weather",
    "description": "Tell the weather of a city.",
    "parameters": PARAMETERS,
}
OPENAI = {"model": f"openai/{MODEL}", "api_base": BASE_URL, "api_key": API_KEY}
ANTHROPIC = {
    "model": f"anthropic/{MODEL}",
    "api_base": BASE_URL.removesuffix("/v1"),
    "api_key": API_KEY,
}
TOOLS = [{"type": "function", "function": FUNCTION}]


def answered(messages: list, message) -> bool:
    """Add the answer and the results of its calls to ``messages``; whether it was the last."""
    messages.append(message.model_dump())
    for call in message.tool_calls or []:
        content = weather_of(**json.loads(call.function.arguments))
        messages.append(
            {"role": "tool", "tool_call_id": call.id, "name": "get_weather", "content": content}
        )
    return not message.tool_calls


def plain(system: str, **where) -> list:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": QUESTION}]
    while True:
        answer = litellm.completion(messages=messages, tools=TOOLS, max_tokens=256, **where)
        if answered(messages, answer.choices[0].message):
            return messages


async def streamed(messages: list, **where) -> list[str]:
    messages.append({"role": "user", "content": SECOND_QUESTION})
    pieces = []
    while True:
        stream = await litellm.acompletion(
            messages=messages, tools=TOOLS, max_tokens=256, stream=True, **where
        )
        chunks = [chunk async for chunk in stream]
        pieces += [
            text for chunk in chunks if chunk.choices and (text := chunk.choices[0].delta.content)
        ]
        whole = litellm.stream_chunk_builder(chunks, messages=messages)
        if answered(messages, whole.choices[0].message):
            return pieces


async def main() -> None:
    heard = {}
    for name, where in (("openai", OPENAI), ("anthropic", ANTHROPIC)):
        messages = await asyncio.to_thread(plain, f"{SYSTEM} ({name})", **where)
        heard[name] = {
            "answer": messages[-1]["content"],
            "pieces": await streamed(messages, **where),
        }
    answer = await litellm.aresponses(input=QUESTION, instructions=SYSTEM, **OPENAI)
    heard["responses"] = answer.output[0].content[0].text
    result_print(**heard)


asyncio.run(main())
