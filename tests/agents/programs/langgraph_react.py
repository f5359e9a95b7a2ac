"""LangGraph: its prebuilt ReAct agent, over LangChain's OpenAI client."""

import warnings

from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from weather import MODEL, QUESTION, SYSTEM, get_weather

warnings.filterwarnings("ignore")


def play(base_url: str, api_key: str) -> str:
    model = ChatOpenAI(model=MODEL, base_url=base_url, api_key=api_key, max_retries=0)
    agent = create_react_agent(model, [get_weather], prompt=SYSTEM)
    return agent.invoke({"messages": [("user", QUESTION)]})["messages"][-1].content
