"""Griptape: an agent whose tool's name and arguments the framework wraps in its own."""

from griptape.artifacts import TextArtifact
from griptape.drivers.prompt.openai import OpenAiChatPromptDriver
from griptape.structures import Agent
from griptape.tools import BaseTool
from griptape.utils.decorators import activity
from schema import Schema
from weather import MODEL, QUESTION, get_weather


class Weather(BaseTool):
    @activity(
        config={"description": "Tell the weather of a city.", "schema": Schema({"city": str})}
    )
    def get_weather(self, params: dict) -> TextArtifact:
        return TextArtifact(get_weather(params["values"]["city"]))


def play(base_url: str, api_key: str) -> str:
    driver = OpenAiChatPromptDriver(
        model=MODEL, base_url=base_url, api_key=api_key, use_native_tools=True
    )
    return str(
        Agent(prompt_driver=driver, tools=[Weather()]).run(QUESTION).output_task.output.value
    )
