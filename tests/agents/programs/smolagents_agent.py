"""smolagents: its agent that calls tools, the last of which is the answer."""

from smolagents import OpenAIModel, Tool, ToolCallingAgent
from smolagents.monitoring import LogLevel
from weather import MODEL, QUESTION, get_weather


class GetWeather(Tool):
    name = "get_weather"
    description = "Tell the weather of a city."
    inputs = {"city": {"type": "string", "description": "The city."}}
    output_type = "string"

    def forward(self, city: str) -> str:
        return get_weather(city)


def play(base_url: str, api_key: str) -> str:
    model = OpenAIModel(model_id=MODEL, api_base=base_url, api_key=api_key)
    agent = ToolCallingAgent(
        tools=[GetWeather()], model=model, max_steps=5, verbosity_level=LogLevel.OFF
    )
    return agent.run(QUESTION)
