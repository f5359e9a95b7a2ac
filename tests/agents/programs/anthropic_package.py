"""The anthropic package: its own runner of tools."""

from anthropic import Anthropic, beta_tool
from weather import MODEL, QUESTION, SYSTEM, get_weather


def play(base_url: str, api_key: str) -> str:
    with Anthropic(base_url=base_url.removesuffix("/v1"), api_key=api_key, max_retries=0) as client:
        runner = client.beta.messages.tool_runner(
            model=MODEL, max_tokens=500, system=SYSTEM, tools=[beta_tool(get_weather)],
            messages=[{"role": "user", "content": QUESTION}],
        )  # fmt: skip
        return runner.until_done().content[-1].text
