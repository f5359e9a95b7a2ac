"""CrewAI: a crew of one, with a tool."""

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from weather import MODEL, QUESTION, get_weather


@tool("get_weather")
def weather_tool(city: str) -> str:
    """Tell the weather of a city."""
    return get_weather(city)


def play(base_url: str, api_key: str) -> str:
    llm = LLM(model=f"openai/{MODEL}", base_url=base_url, api_key=api_key)
    agent = Agent(
        role="forecaster",
        goal="answer",
        backstory="You know the weather.",
        llm=llm,
        tools=[weather_tool],
    )
    task = Task(description=QUESTION, expected_output="one sentence", agent=agent)
    return Crew(agents=[agent], tasks=[task], verbose=False).kickoff().raw
