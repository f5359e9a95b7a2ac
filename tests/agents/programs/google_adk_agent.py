"""Google's Agent Development Kit over LiteLLM."""

from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types
from weather import MODEL, QUESTION, SYSTEM, get_weather


async def play(base_url: str, api_key: str) -> str:
    model = LiteLlm(model=f"openai/{MODEL}", api_base=base_url, api_key=api_key)
    agent = LlmAgent(name="forecaster", model=model, instruction=SYSTEM, tools=[get_weather])
    runner = InMemoryRunner(agent=agent, app_name="weather")
    session = await runner.session_service.create_session(app_name="weather", user_id="me")
    asked = types.Content(role="user", parts=[types.Part(text=QUESTION)])
    said = ""
    async for event in runner.run_async(user_id="me", session_id=session.id, new_message=asked):
        if event.is_final_response() and event.content:
            said = "".join(part.text or "" for part in event.content.parts if not part.thought)
    return said
