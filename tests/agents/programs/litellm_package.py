"""LiteLLM: a tool loop, streamed and put together again by the package."""

import litellm
from weather import FUNCTION, MODEL, QUESTION, SYSTEM, called


def play(base_url: str, api_key: str) -> str:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    tools = [{"type": "function", "function": FUNCTION}]
    where = {"model": f"openai/{MODEL}", "api_base": base_url, "api_key": api_key}
    while True:
        chunks = list(litellm.completion(messages=messages, tools=tools, stream=True, **where))
        message = litellm.stream_chunk_builder(chunks, messages=messages).choices[0].message
        messages.append(message.model_dump())
        if not message.tool_calls:
            return message.content
        for call in message.tool_calls:
            content = called(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
