"""Every option that a dialect takes is on the page of options, under its dialect."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from gpu_runtime.gateway.anthropic.requests import NEUTRAL as ANTHROPIC_NEUTRAL
from gpu_runtime.gateway.anthropic.requests import MessagesRequest
from gpu_runtime.gateway.openai.responses_requests import NEUTRAL as RESPONSES_NEUTRAL
from gpu_runtime.gateway.openai.responses_requests import ResponsesRequest
from gpu_runtime.generation.requests import NEUTRAL, ChatRequest, TextRequest
from support.gateway_harness import Gateway

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "requests.md"
TEXT_ALONE, CHAT_ALONE = {"best_of", "suffix"}, {"modalities"}
DIALECTS: dict[str, tuple[type[BaseModel], set[str]]] = {
    "Chat completions": (ChatRequest, set(NEUTRAL) - TEXT_ALONE),
    "Text completions": (TextRequest, set(NEUTRAL) - CHAT_ALONE),
    "Responses": (ResponsesRequest, set(RESPONSES_NEUTRAL)),
    "Anthropic messages": (MessagesRequest, set(ANTHROPIC_NEUTRAL)),
}


def named(section: str) -> set[str]:
    """The names in the first column of a section's table."""
    rows = PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0].splitlines()
    return {name for row in rows if row.startswith("| `") for name in re.findall(r"`(\w+)`", row.split(" | ")[0])}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_option_is_on_the_page(dialect: str) -> None:
    model, neutral = DIALECTS[dialect]
    taken = set(model.model_fields) | neutral
    documented = named("Every dialect") | named(dialect)
    assert taken - documented == set(), "accepted and not documented"
    not_options = {"item_reference", "input"}
    assert named(dialect) - taken - not_options == set(), "documented and not accepted"


async def test_an_option_that_is_not_there_is_refused_in_sentences_that_say_what_to_do(gateway: Gateway) -> None:
    begun = await gateway.begin()
    refused = await gateway.raw_chat(begun["api_key"], messages=[{"role": "user", "content": "x"}], foo=1)
    said = refused.json()["error"]["message"]
    assert said.startswith("the option foo is not supported. Leave it out"), said
