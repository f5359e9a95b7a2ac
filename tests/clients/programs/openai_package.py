"""The openai package alone: a tool loop, plain and streamed, sync and async, in chat and in
Responses.
"""

import asyncio
import json

from openai import AsyncOpenAI, OpenAI, pydantic_function_tool
from pydantic import BaseModel
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


class get_weather(BaseModel):
    """Tell the weather of a city."""

    city: str


class Report(BaseModel):
    """The answer of the last call, as a type."""

    city: str
    degrees: int


def chat() -> None:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    tools = [pydantic_function_tool(get_weather)]
    with OpenAI(base_url=BASE_URL, api_key=API_KEY) as client:
        models = [model.id for model in client.models.list()]
        habits = {
            "user": "me",
            "store": True,
            "service_tier": "flex",
            "prompt_cache_key": "k",
            "metadata": {"a": "b"},
        }
        while True:
            answer = client.chat.completions.create(
                model=MODEL, messages=messages, tools=tools, **habits
            )
            message = answer.choices[0].message
            messages.append(message.model_dump())
            if not message.tool_calls:
                break
            for call in message.tool_calls:
                content = weather_of(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
        messages.append({"role": "user", "content": SECOND_QUESTION})
        pieces = asyncio.run(chat_streamed(messages, tools))
        typed = client.chat.completions.parse(
            model=MODEL, messages=[{"role": "user", "content": QUESTION}], response_format=Report
        )
    parsed = typed.choices[0].message.parsed.model_dump()
    result_print(
        models=models,
        answer=message.content,
        finish_reason=answer.choices[0].finish_reason,
        parsed=parsed,
        **pieces,
    )


async def chat_streamed(messages: list, tools: list) -> dict:
    pieces, asked = [], []
    async with AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY) as client:
        while True:
            options = {"stream_options": {"include_usage": True}}
            async with client.chat.completions.stream(
                model=MODEL, messages=messages, tools=tools, **options
            ) as events:
                async for event in events:
                    if event.type == "content.delta":
                        pieces.append(event.delta)
                final = await events.get_final_completion()
            message = final.choices[0].message
            messages.append(message)  # as it is, with what the package parsed
            if not message.tool_calls:
                return {"pieces": pieces, "asked": asked, "tokens": final.usage.completion_tokens}
            for call in message.tool_calls:
                asked.append(call.function.parsed_arguments.city)
                content = weather_of(asked[-1])
                messages.append({"role": "tool", "tool_call_id": call.id, "content": content})


def responses() -> None:
    items = [{"role": "user", "content": QUESTION}]
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    schema["additionalProperties"] = False
    tools = [
        {
            "type": "function",
            "name": "get_weather",
            "description": "",
            "parameters": schema,
            "strict": True,
        }
    ]
    options = {
        "model": MODEL,
        "instructions": SYSTEM,
        "tools": tools,
        "store": False,
        "service_tier": "priority",
    }
    with OpenAI(base_url=BASE_URL, api_key=API_KEY) as client:
        pieces = []
        while True:
            with client.responses.stream(input=items, **options) as events:
                pieces += [
                    event.delta for event in events if event.type == "response.output_text.delta"
                ]
                answer = events.get_final_response()
            items += answer.output
            calls = [item for item in answer.output if item.type == "function_call"]
            for call in calls:
                output = weather_of(**json.loads(call.arguments))
                items.append(
                    {"type": "function_call_output", "call_id": call.call_id, "output": output}
                )
            if not calls:
                break
        items.append({"role": "user", "content": SECOND_QUESTION})
        plain = client.responses.create(input=items, **options)
        typed = client.responses.parse(model=MODEL, input=QUESTION, text_format=Report)
    result_print(pieces=pieces, answer=plain.output_text, parsed=typed.output_parsed.model_dump())


{"chat": chat, "responses": responses}[ARGUMENTS[0]]()
