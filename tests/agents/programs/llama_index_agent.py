"""LlamaIndex: its function-calling agent, over the client for servers like OpenAI's."""

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from weather import MODEL, QUESTION, SYSTEM, get_weather


async def play(base_url: str, api_key: str) -> str:
    llm = OpenAILike(
        model=MODEL, api_base=base_url, api_key=api_key, is_chat_model=True, is_function_calling_model=True,
        context_window=32_000, max_retries=0,
    )  # fmt: skip
    agent = FunctionAgent(tools=[get_weather], llm=llm, system_prompt=SYSTEM)
    return (await agent.run(QUESTION)).response.content
