"""LangChain: its agent over Anthropic's dialect, whose last answer has the form that output_config
asks for.
"""

from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy
from langchain_anthropic import ChatAnthropic
from pydantic import BaseModel
from weather import MODEL, QUESTION, SYSTEM, get_weather


class Report(BaseModel):
    """A report on the weather."""

    summary: str


def play(base_url: str, api_key: str) -> str:
    origin = base_url.removesuffix("/v1")  # its client adds /v1 itself
    model = ChatAnthropic(
        model=MODEL, base_url=origin, api_key=api_key, max_tokens=300, max_retries=0
    )
    agent = create_agent(
        model, [get_weather], system_prompt=SYSTEM, response_format=ProviderStrategy(Report)
    )
    return agent.invoke({"messages": [("user", QUESTION)]})["structured_response"].summary
