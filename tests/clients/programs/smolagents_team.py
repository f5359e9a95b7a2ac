"""smolagents: an agent that calls tools, one of which is another agent; then a streamed run."""

from smolagents import OpenAIModel, Tool, ToolCallingAgent
from smolagents.monitoring import LogLevel
from weather import API_KEY, BASE_URL, MODEL, QUESTION, SECOND_QUESTION, result_print, weather_of

model = OpenAIModel(model_id=MODEL, api_base=BASE_URL, api_key=API_KEY)


class GetWeather(Tool):
    name = "get_weather"
    description = "Tell the weather of a city."
    inputs = {"city": {"type": "string", "description": "The city."}}
    output_type = "string"

    def forward(self, city: str) -> str:
        return weather_of(city)


def forecaster(**options) -> ToolCallingAgent:
    return ToolCallingAgent(
        tools=[GetWeather()], model=model, max_steps=4, name="forecaster", description="Knows the weather.",
        verbosity_level=LogLevel.OFF, **options,
    )  # fmt: skip


manager = ToolCallingAgent(
    tools=[], model=model, managed_agents=[forecaster()], max_steps=4, verbosity_level=LogLevel.OFF
)
answer = manager.run(QUESTION)
streamed = forecaster(stream_outputs=True).run(SECOND_QUESTION)
result_print(answer=answer, streamed=streamed)
