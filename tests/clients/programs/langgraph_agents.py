"""LangChain's client in LangGraph: a ReAct loop with memory, its streamed second turn, and workers
in parallel.
"""

import asyncio
import operator
import warnings
from typing import Annotated, TypedDict

from langchain_core.messages import AIMessageChunk
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import MemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import create_react_agent
from langgraph.types import Send
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

warnings.filterwarnings("ignore")
CITIES = ["Oslo", "Lima", "Quito"]
model = ChatOpenAI(
    model=MODEL, base_url=BASE_URL, api_key=API_KEY, use_responses_api=ARGUMENTS[0] == "responses"
)


@tool
def get_weather(city: str) -> str:
    """Tell the weather of a city."""
    return weather_of(city)


class Travel(TypedDict):
    """What the graph of workers passes on."""

    reports: Annotated[list[str], operator.add]


async def worker(state: dict) -> Travel:
    answer = await model.ainvoke(
        [("system", SYSTEM), ("user", f"What is the weather in {state['city']}?")]
    )
    return {"reports": [answer.text if isinstance(answer.text, str) else answer.text()]}


def parallel_graph():
    graph = StateGraph(Travel)
    graph.add_node("worker", worker)
    graph.add_conditional_edges(
        START, lambda _: [Send("worker", {"city": city}) for city in CITIES], ["worker"]
    )
    graph.add_edge("worker", END)
    return graph.compile()


async def main() -> None:
    agent = create_react_agent(model, [get_weather], prompt=SYSTEM, checkpointer=MemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    first = await agent.ainvoke({"messages": [("user", QUESTION)]}, thread)
    pieces = []
    stream = agent.astream(
        {"messages": [("user", SECOND_QUESTION)]}, thread, stream_mode="messages"
    )
    async for chunk, _ in stream:
        if isinstance(chunk, AIMessageChunk) and (
            text := chunk.text if isinstance(chunk.text, str) else chunk.text()
        ):
            pieces.append(text)
    last = first["messages"][-1]
    answer = last.text if isinstance(last.text, str) else last.text()
    reports = (await parallel_graph().ainvoke({"reports": []}))["reports"]
    result_print(
        answer=answer, usage=last.usage_metadata["output_tokens"], pieces=pieces, reports=reports
    )


asyncio.run(main())
