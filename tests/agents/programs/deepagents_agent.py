"""Deep Agents: LangChain's harness, with its own tools for files, plans and other agents."""

from deepagents import create_deep_agent
from langchain_openai import ChatOpenAI
from weather import MODEL, QUESTION, SYSTEM, get_weather


def play(base_url: str, api_key: str) -> str:
    model = ChatOpenAI(model=MODEL, base_url=base_url, api_key=api_key, max_retries=0)
    agent = create_deep_agent(model=model, tools=[get_weather], system_prompt=SYSTEM)
    return agent.invoke({"messages": [("user", QUESTION)]})["messages"][-1].content
