"""``crew.py`` of the twenty questions: a game as a CrewAI flow, with CrewAI itself. No server: its
dry run.
"""

from pathlib import Path

import pytest
from clients.outside_agents import ENVIRONMENT

from agents.environments import FOLDER, ROOT, build_all
from support.programs import program_output

EXAMPLE = ROOT / "sdk" / "examples" / "twenty_questions"
PROGRAM_S = 300.0
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1500)]


@pytest.mark.parametrize("search", [False, True])
async def test_a_game_of_the_crewai_flow_is_played_to_its_end(tmp_path: Path, search: bool) -> None:
    built = build_all(["crewai"], reuse=True)["crewai"]
    if built.trouble:
        pytest.skip(f"crewai could not be installed: {built.trouble}")
    quiet = {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false"}
    said = await program_output(
        str(FOLDER / "crewai" / "bin" / "python"), str(EXAMPLE / "dry_run.py"),
        "--crew", "--games", "2", "--turns", "4", *(["--search"] if search else []), cwd=tmp_path, deadline_s=PROGRAM_S,
        env=ENVIRONMENT | quiet | {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "sdk")},
    )  # fmt: skip
    assert said.count(": reward ") == 2 and "   1. " in said
    assert ("  searched: " in said) is search
    # The history is written anew for each question: of the calls of a game those of one turn alone
    # may merge.
    assert "  timeline 2: " in said
    assert ("merge share 0.00" in said) is not search
