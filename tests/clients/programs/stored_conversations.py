"""Conversations that a client names instead of sending again: the Agents SDK and LangChain, by
previous_response_id.
"""

import asyncio

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


async def agents_sdk() -> None:
    from agents import Agent, OpenAIResponsesModel, Runner, function_tool
    from openai import AsyncOpenAI

    @function_tool
    def get_weather(city: str) -> str:
        """Tell the weather of a city."""
        return weather_of(city)

    async with AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY) as client:
        model = OpenAIResponsesModel(model=MODEL, openai_client=client)
        agent = Agent(name="forecaster", instructions=SYSTEM, model=model, tools=[get_weather])
        first = await Runner.run(agent, QUESTION, auto_previous_response_id=True)
        second = await Runner.run(
            agent, SECOND_QUESTION, previous_response_id=first.last_response_id
        )
    result_print(answer=first.final_output, second=second.final_output)


async def langchain() -> None:
    from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    @tool
    def get_weather(city: str) -> str:
        """Tell the weather of a city."""
        return weather_of(city)

    options = {
        "use_responses_api": True,
        "use_previous_response_id": True,
        "include": ["reasoning.encrypted_content"],
    }
    model = ChatOpenAI(model=MODEL, base_url=BASE_URL, api_key=API_KEY, **options).bind_tools(
        [get_weather]
    )
    messages = [SystemMessage(SYSTEM), HumanMessage(QUESTION)]
    answers = []
    for question in (None, SECOND_QUESTION):
        messages += [HumanMessage(question)] if question else []
        while True:
            answer = await model.ainvoke(messages)
            messages.append(answer)
            messages += [
                ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])
                for call in answer.tool_calls
            ]
            if not answer.tool_calls:
                break
        answers.append(answer.text if isinstance(answer.text, str) else answer.text())
    result_print(answer=answers[0], second=answers[1])


asyncio.run({"agents_sdk": agents_sdk, "langchain": langchain}[ARGUMENTS[0]]())
