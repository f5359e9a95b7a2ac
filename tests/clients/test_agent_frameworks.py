"""Agents written with frameworks that know nothing of this service, unmodified."""

import json
from pathlib import Path

import pytest
from clients import recording
from clients.outside_agents import call_text, run_program

from support.gateway_harness import Gateway

pytestmark = pytest.mark.nightly  # the suite has tests/agents, six of the matrix

ASKS_PARIS, ASKS_ROME = (
    call_text("get_weather", city="Paris"),
    call_text("get_weather", city="Rome"),
)
PARIS, ROME = "It is sunny in Paris.", "It is as sunny in Rome, and as warm."


@pytest.mark.parametrize("dialect", ["responses", "chat"])
async def test_openai_agents_sdk(gateway: Gateway, tmp_path: Path, dialect: str) -> None:
    gateway.engine.say(call_text("transfer_to_forecaster"), ASKS_PARIS, PARIS, ASKS_ROME, ROME)
    run = await run_program(gateway, "agents_sdk", dialect, folder=tmp_path)
    assert (run.output["answer"], run.output["last_agent"]) == (PARIS, "forecaster")
    assert "".join(run.output["pieces"]) == run.output["second"] == ROME
    # The one who hands over has other instructions and other tools; the forecaster's turns are one
    # sequence.
    assert run.timelines == [[0], [1, 2, 3, 4]]


@pytest.mark.parametrize("dialect", ["chat", "responses"])
async def test_langgraph(gateway: Gateway, tmp_path: Path, dialect: str) -> None:
    gateway.engine.say(ASKS_PARIS, PARIS, ASKS_ROME, ROME, "snow", "mist", "rain")
    run = await run_program(gateway, "langgraph_agents", dialect, folder=tmp_path)
    assert run.output["answer"] == PARIS
    assert run.output["usage"] == len(gateway.engine.requests[1].token_ids)
    assert "".join(run.output["pieces"]) == ROME
    assert len(run.output["pieces"]) > 5
    assert sorted(run.output["reports"]) == ["mist", "rain", "snow"]
    assert run.timelines == [[0, 1, 2, 3], [4], [5], [6]]


async def test_smolagents(gateway: Gateway, tmp_path: Path) -> None:

    def calls(name: str, **arguments: str) -> str:
        # they force each call: the mark is in the prompt
        return json.dumps({"name": name, "arguments": arguments})

    gateway.engine.say(
        calls("forecaster", task="The weather in Paris?"),
        calls("get_weather", city="Paris"),
        calls("final_answer", answer=PARIS),
        calls("final_answer", answer=PARIS),
        calls("get_weather", city="Rome"),
        calls("final_answer", answer=ROME),
    )
    run = await run_program(gateway, "smolagents_team", folder=tmp_path)
    assert (run.output["answer"], run.output["streamed"]) == (PARIS, ROME)
    # They write what was called into the history in words of their own: no call's prompt continues
    # another's.
    assert run.timelines == [[0], [1], [2], [3], [4], [5]]


async def test_autogen(gateway: Gateway, tmp_path: Path) -> None:
    gateway.engine.say(*recording.ANSWERS)
    run = await run_program(gateway, "autogen_team", folder=tmp_path)
    assert run.output["said"][1:] == [
        ["forecaster", recording.PARIS],
        ["writer", recording.POEM],
        ["critic", "Too short."],
        ["writer", recording.LONGER_POEM],
        ["critic", "APPROVE"],
    ]
    assert run.output["pieces"] > 5
    assert [call.agent for call in run.calls if call.agent != "selector"] == [
        *("forecaster", "forecaster", "writer", "critic", "writer", "critic"),
    ]
    # The selector is asked afresh each time; each of the others goes on where it was.
    assert run.timelines == [[0], [1, 2], [3], [4, 8], [5], [6, 10], [7], [9]]
