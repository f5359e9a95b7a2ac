"""The GSM8K part of `make gpu` against a whole server with fake engines: what it plays, counts and
reports.
"""

import argparse
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.loop_server import BASE_MODEL, ROOT, LoopServer
from gpu.gsm8k_data import SMOKE, Problems
from gpu.learn_gsm8k import SMOKE_OPTIONS, Run, Solver
from gpu.report import Report

from tinkerscript import TinkerScript
from tinkerscript.datasets import rows_read

OPTIONS = {"smoke": True, "hours": 1.0, "dollars_per_device_hour": 2.5}


@pytest.mark.parametrize(("goal", "ended"), [(0.0, []), (1.01, ["below the goal of 101%"])])
def test_it_trains_between_two_looks_at_the_test_split_and_says_what_it_cost(
    loop_server: LoopServer, goal: float, ended: list[str]
) -> None:
    train, test = (
        rows_read(SMOKE, split=split, columns=["question", "answer"]) for split in ("train", "test")
    )
    problems = Problems(Path("a-model"), train[:4], train[4:6], test[:3])
    report, wanted = Report(), argparse.Namespace(goal=goal, **OPTIONS)
    server = argparse.Namespace(base_url=loop_server.url)
    with TinkerScript(
        BASE_MODEL, base_url=loop_server.url, api_key=loop_server.api_key, **SMOKE_OPTIONS
    ) as session:
        run = Run(session, Solver(server, smoke=True), problems, report, wanted)
        wanted.smoke = goal == 0.0  # the other one has the time limit of a run
        wanted.hours = 0.0 if not wanted.smoke else 1.0
        run.carry_out()
    solved, result = report.tables
    assert [row[0] for row in solved.rows] == ["0", "1"] and all(
        row[2].endswith("%") for row in solved.rows
    )
    found = dict(zip(result.columns, result.rows[0], strict=True))
    assert (found["looks at the test split"], found["steps"], found["dollars a device-hour"]) == (
        "2",
        "1",
        "2.50",
    )
    assert not math.isnan(float(found["device-hours"])) and found["dollars"] == "unknown", (
        "this server has no prices"
    )
    assert len(report.failed) == len(ended) and all(words in report.failed[0] for words in ended)


def test_without_a_network_it_is_said_what_is_missing_and_how_it_is_brought(tmp_path: Path) -> None:
    program = "from pathlib import Path; from gpu.gsm8k_data import problems_get; problems_get(Path('.'), smoke=False)"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env=os.environ | {
            "PYTHONPATH": f"{ROOT}:{ROOT / 'sdk'}:{ROOT / 'tests'}", "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path),
        },
    )  # fmt: skip
    assert ran.returncode == 1 and "of the dataset openai/gsm8k is not in" in ran.stderr, ran.stderr
    assert "HF_HUB_OFFLINE=1 forbids it" in ran.stderr and "`hf download`" in ran.stderr
    assert "Traceback" not in ran.stderr
