"""Qwen-Agent: it describes tools and reads calls in the messages' text by itself."""

from typing import Any

from qwen_agent.agents import Assistant
from qwen_agent.tools.base import BaseTool, register_tool
from weather import MODEL, PARAMETERS, QUESTION, SYSTEM, called


@register_tool("get_weather", allow_overwrite=True)
class Weather(BaseTool):
    description = "Tell the weather of a city."
    parameters = PARAMETERS

    def call(self, params: str, **_: Any) -> str:
        return called(params)


def play(base_url: str, api_key: str, **options: Any) -> str:
    llm = {"model": MODEL, "model_server": base_url, "api_key": api_key, "generate_cfg": options}
    bot = Assistant(llm=llm, system_message=SYSTEM, function_list=["get_weather"])
    *_, messages = bot.run([{"role": "user", "content": QUESTION}])
    return str(messages[-1]["content"])
