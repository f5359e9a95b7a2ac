"""Agent-lightning 0.3 as it is, with an episode for its backend: what its spans recover, and what
the gateway has.

``make nightly`` builds its environment, of the versions in tests/agents/agents.toml that install
and work together.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from clients.outside_agents import ENVIRONMENT, check_record

from agents.environments import FOLDER, build_all
from agents.frameworks import PROGRAMS
from support.gateway_harness import MODEL, Gateway, running_gateway
from support.programs import program_output

NAME = "agentlightning"
PROGRAM_S = 300.0
SAID = "Sunny in Paris."
CALLS = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
# Spans with the ids and log-probabilities of every token.
WHOLE = ["direct", "asked_for", "tool", "direct over hosted_vllm", "direct over openai"]
# What its client side leaves out of its spans, whatever a server sends: all of them are on the
# record here.
SPANS_WITHOUT_IDS = ["stream"]
NO_SPANS = ["parse", "responses"]
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def python() -> str:
    """The interpreter of its environment, built where it is not there."""
    environment = build_all([NAME], reuse=True)[NAME]
    if environment.trouble:
        pytest.skip(f"{NAME} could not be installed: {environment.trouble}")
    return str(FOLDER / NAME / "bin" / "python")


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    room = {"max_context_length": 4096, "max_tokens": 256}
    async with running_gateway(tmp_path / "gateway", family="qwen2_5", **room) as served:
        yield served


async def play(gateway: Gateway, python: str, case: str, folder: Path) -> list[list[Any]]:
    """What its adapter recovered of one rollout; the record of the gateway is checked against the
    engine's log.
    """
    said = CALLS if case == "tool" else '{"text": "Sunny."}' if case == "parse" else SAID
    gateway.engine.answer = lambda prompt, options: [
        *gateway.engine.encode(said),
        gateway.engine.end_id,
    ]
    begun = await gateway.begin()
    out = await program_output(
        python, str(PROGRAMS / "agent_lightning.py"), f"http://{gateway.address}/v1", begun["api_key"], MODEL, case,
        cwd=folder, env=ENVIRONMENT | {"HOME": str(folder)}, deadline_s=PROGRAM_S,
    )  # fmt: skip
    await check_record(gateway, begun["episode_id"], gateway.engine.requests)
    return json.loads(out.splitlines()[-1])[case]


@pytest.mark.parametrize("case", WHOLE)
async def test_its_spans_recover_every_token(
    gateway: Gateway, python: str, tmp_path: Path, case: str
) -> None:
    found = await play(gateway, python, case, tmp_path)
    last = gateway.engine.requests[-1]  # the proxy's health check comes before
    whole = [triplet for triplet in found if triplet[1]]
    assert whole == [[list(last.prompt_ids), last.token_ids, len(last.logprobs), 0.5]]


@pytest.mark.parametrize("case", [*SPANS_WITHOUT_IDS, *NO_SPANS])
async def test_what_its_spans_leave_out_is_on_the_record(
    gateway: Gateway, python: str, tmp_path: Path, case: str
) -> None:
    found = await play(gateway, python, case, tmp_path)
    assert found == ([[[], [], 0, 0.5]] if case in SPANS_WITHOUT_IDS else [])


@pytest.mark.parametrize("call", ["direct", "stream"])
async def test_the_spans_of_its_proxy_have_ids_over_hosted_vllm(
    gateway: Gateway, python: str, tmp_path: Path, call: str
) -> None:
    (triplet,) = await play(gateway, python, f"{call} over hosted_vllm spans", tmp_path)
    last = gateway.engine.requests[-1]
    assert triplet[:2] == [list(last.prompt_ids), last.token_ids]
