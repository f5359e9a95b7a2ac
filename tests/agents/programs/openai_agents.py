"""OpenAI's Agents SDK: a hand-over to an agent whose tool comes from an MCP server."""

import sys
from pathlib import Path

from agents import Agent, OpenAIChatCompletionsModel, Runner
from agents.mcp import MCPServerStdio
from openai import AsyncOpenAI
from weather import MODEL, QUESTION, SYSTEM


async def play(base_url: str, api_key: str) -> str:
    server = {
        "command": sys.executable,
        "args": [str(Path(__file__).with_name("weather_server.py"))],
    }
    async with (
        AsyncOpenAI(base_url=base_url, api_key=api_key, max_retries=0) as client,
        MCPServerStdio(server, client_session_timeout_seconds=60) as weather,
    ):
        model = OpenAIChatCompletionsModel(model=MODEL, openai_client=client)
        forecaster = Agent(
            name="forecaster", instructions=SYSTEM, model=model, mcp_servers=[weather]
        )
        triage = Agent(
            name="triage",
            instructions="Hand the question over.",
            model=model,
            handoffs=[forecaster],
        )
        return (await Runner.run(triage, QUESTION)).final_output
