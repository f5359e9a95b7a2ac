"""Inspect: a task of one sample whose solver may call a tool."""

import os
import tempfile

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.solver import generate, system_message, use_tools
from inspect_ai.tool import Tool, tool
from weather import MODEL, QUESTION, SYSTEM, get_weather


@tool(name="get_weather")
def weather_tool() -> Tool:
    async def execute(city: str) -> str:
        """Tell the weather of a city.

        Args:
            city: The name of the city.
        """
        return get_weather(city)

    return execute


def play(base_url: str, api_key: str) -> str:
    os.environ |= {"OURS_API_KEY": api_key, "OURS_BASE_URL": base_url}
    model = get_model(f"openai-api/ours/{MODEL}", base_url=base_url, api_key=api_key, memoize=False)
    task = Task(
        dataset=[Sample(QUESTION)],
        solver=[system_message(SYSTEM), use_tools(weather_tool()), generate()],
    )
    with tempfile.TemporaryDirectory() as folder:
        (log,) = eval(task, model=model, display="none", log_dir=folder)
        assert log.status == "success", log.error
        return log.samples[0].output.completion
