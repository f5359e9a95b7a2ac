"""CAMEL: a chat agent with a tool. Its own counter of tokens fetches a file from elsewhere; this
one needs none.
"""

from camel.agents import ChatAgent
from camel.models import ModelFactory
from camel.toolkits import FunctionTool
from camel.types import ModelPlatformType
from camel.utils import BaseTokenCounter
from weather import MODEL, QUESTION, SYSTEM, get_weather


class Letters(BaseTokenCounter):
    def count_tokens_from_messages(self, messages: list) -> int:
        return len(str(messages))

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, token_ids: list[int]) -> str:
        return "".join(map(chr, token_ids))


def play(base_url: str, api_key: str) -> str:
    platform = ModelPlatformType.OPENAI_COMPATIBLE_MODEL
    model = ModelFactory.create(
        model_platform=platform,
        model_type=MODEL,
        url=base_url,
        api_key=api_key,
        token_counter=Letters(),
    )
    return (
        ChatAgent(SYSTEM, model=model, tools=[FunctionTool(get_weather)])
        .step(QUESTION)
        .msgs[0]
        .content
    )
