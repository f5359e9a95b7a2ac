"""Every option that a dialect takes is on the page of options, under its dialect."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from gpu_runtime.gateway.anthropic.labels import MESSAGES_LABELS
from gpu_runtime.gateway.anthropic.requests import MessagesRequest
from gpu_runtime.gateway.openai.chat_labels import CHAT_LABELS, TEXT_LABELS
from gpu_runtime.gateway.openai.responses_labels import RESPONSES_LABELS
from gpu_runtime.gateway.openai.responses_requests import ResponsesRequest
from gpu_runtime.generation.labels import Table
from gpu_runtime.generation.requests import ChatRequest, TextRequest
from support.gateway_harness import Gateway
from tinkerscript.wire.dialects.table import DIALECTS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "requests.md"
# By the page's section: what GET /v1/server calls it, its fields, and its labels.
SECTIONS: dict[str, tuple[str, type[BaseModel], Table]] = {
    "Chat completions": ("openai.chat", ChatRequest, CHAT_LABELS),
    "Text completions": ("openai.completions", TextRequest, TEXT_LABELS),
    "Responses": ("openai.responses", ResponsesRequest, RESPONSES_LABELS),
    "Anthropic messages": ("anthropic.messages", MessagesRequest, MESSAGES_LABELS),
}


def named(section: str) -> set[str]:
    """The names in the first column of a section's table."""
    rows = PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0].splitlines()
    return {
        name
        for row in rows
        if row.startswith("| `")
        for name in re.findall(r"`(\w+)`", row.split(" | ")[0])
    }


def test_every_dialect_has_a_section() -> None:
    assert {name for name, _, _ in SECTIONS.values()} == {
        name for row in DIALECTS for name in row.capabilities
    }


@pytest.mark.parametrize("dialect", SECTIONS)
def test_every_option_is_on_the_page(dialect: str) -> None:
    _, model, labels = SECTIONS[dialect]
    taken = set(model.model_fields) | {label.path for label in labels if "." not in label.path}
    documented = named("Every dialect") | named(dialect)
    assert taken - documented == set(), "accepted and not documented"
    not_options = {"item_reference", "input"}
    assert named(dialect) - taken - not_options == set(), "documented and not accepted"


@pytest.mark.parametrize("dialect", SECTIONS)
def test_every_label_is_once_in_its_table_with_a_source(dialect: str) -> None:
    _, _, labels = SECTIONS[dialect]
    assert len({label.path for label in labels}) == len(labels) and all(
        label.source for label in labels
    )


async def test_an_option_that_is_not_there_is_refused_in_sentences_that_say_what_to_do(
    gateway: Gateway,
) -> None:
    begun = await gateway.begin()
    refused = await gateway.raw_chat(
        begun["api_key"], messages=[{"role": "user", "content": "x"}], foo=1
    )
    said = refused.json()["error"]["message"]
    assert said.startswith("the option foo is not supported. Leave it out"), said
