"""The openai package: a tool loop by hand."""

from openai import OpenAI
from weather import FUNCTION, MODEL, QUESTION, SYSTEM, called


def play(base_url: str, api_key: str) -> str:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    tools = [{"type": "function", "function": FUNCTION}]
    with OpenAI(base_url=base_url, api_key=api_key, max_retries=0) as client:
        while True:
            message = (
                client.chat.completions.create(model=MODEL, messages=messages, tools=tools)
                .choices[0]
                .message
            )
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return message.content
            for call in message.tool_calls:
                content = called(call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
