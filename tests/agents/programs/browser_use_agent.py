"""browser-use, without pictures: a look at its empty page, then the answer.

Its own frequency_penalty of 0.3 is set to 0: the gateway refuses in training what the trainer
cannot compute.
"""

from browser_use import Agent, BrowserProfile, ChatOpenAI
from weather import MODEL, QUESTION


async def play(base_url: str, api_key: str) -> str:
    llm = ChatOpenAI(
        model=MODEL, base_url=base_url, api_key=api_key, max_retries=0, frequency_penalty=0.0
    )
    profile = BrowserProfile(headless=True, chromium_sandbox=False, enable_default_extensions=False)
    agent = Agent(QUESTION, llm=llm, use_vision=False, browser_profile=profile, use_judge=False)
    return str((await agent.run(max_steps=3)).final_result())
