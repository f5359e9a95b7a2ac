"""Outside clients that name a conversation by its last response: every turn continues the ids that
were sampled.
"""

from pathlib import Path

import pytest
from clients.outside_agents import call_text, run_program

from support.gateway_harness import Gateway

ASKS_PARIS, ASKS_ROME = (
    call_text("get_weather", city="Paris"),
    call_text("get_weather", city="Rome"),
)
CLIENTS = ("agents_sdk", "langchain")


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_conversation_named_by_response_is_one_timeline(
    gateway: Gateway, tmp_path: Path, client: str
) -> None:
    gateway.engine.say(ASKS_PARIS, "Sunny in Paris.", ASKS_ROME, "Sunny in Rome.")
    run = await run_program(gateway, "stored_conversations", client, folder=tmp_path)
    assert (run.output["answer"], run.output["second"]) == ("Sunny in Paris.", "Sunny in Rome.")
    assert run.timelines == [[0, 1, 2, 3]]
