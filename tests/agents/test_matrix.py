"""Six outside agents, as they are, against a plain and a thinking model; `make nightly` runs the
whole of matrix.py.
"""

from pathlib import Path

import pytest
from clients.outside_agents import VENV

from agents.frameworks import FRAMEWORKS, PROGRAMS
from agents.matrix import command_of, play

HERE = [framework for framework in FRAMEWORKS if framework.in_suite]


@pytest.mark.system
async def test_outside_agents_are_recorded_exactly_and_merge(tmp_path: Path) -> None:
    """In one process: each of these frameworks imports much of what the others do."""
    results = await play(command_of(HERE[0], VENV), HERE, tmp_path)
    found = {(result.framework.name, result.model): result.trouble for result in results}
    assert found == {
        (framework.name, model): "" for framework in HERE for model in ("plain", "thinking")
    }


def test_every_agent_has_its_program() -> None:
    assert len(HERE) == 6
    assert {f.program if f.is_node else f"{f.program}.py" for f in FRAMEWORKS} <= {
        path.name for path in PROGRAMS.iterdir()
    }
