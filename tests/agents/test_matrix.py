"""Six outside agents, as they are, against a plain and a thinking model; `make nightly` runs the whole of matrix.py."""

from pathlib import Path

import pytest
from agents.frameworks import FRAMEWORKS, PROGRAMS, Framework
from agents.matrix import command_of, play
from clients.outside_agents import VENV, need

HERE = [framework for framework in FRAMEWORKS if framework.in_suite]


@pytest.mark.parametrize("framework", HERE, ids=lambda framework: framework.name)
async def test_an_outside_agent_is_recorded_exactly_and_merges(framework: Framework, tmp_path: Path) -> None:
    need(*framework.in_suite)
    results = await play(framework, command_of(framework, VENV), tmp_path)
    assert [(result.model, result.trouble) for result in results] == [("plain", ""), ("thinking", "")]


def test_every_agent_has_its_program() -> None:
    assert len(HERE) == 6
    assert {f.program if f.is_node else f"{f.program}.py" for f in FRAMEWORKS} <= {
        path.name for path in PROGRAMS.iterdir()
    }
