"""The sweep of supervised fine-tuning: the unmodified ``tinker`` client, against a server."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from e2e.loop_server import BASE_MODEL, ROOT, LoopServer

EXAMPLE = ROOT / "sdk" / "examples" / "modular_sft"
WANDB = """
import contextlib
from types import SimpleNamespace

@contextlib.contextmanager
def init(name, config):
    def log(line):
        with open("told", "a") as file:
            file.write(f"{name} {'loss' if 'loss' in line else list(line)[-1]}\\n")
    yield SimpleNamespace(log=log)
"""
Sweep = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def sweep(loop_server: LoopServer, tmp_path: Path) -> Sweep:
    """Runs sweep.py of a copy of the folder, as its README says."""
    copy = tmp_path / "modular_sft"
    shutil.copytree(EXAMPLE, copy)
    clean = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    clean |= {
        "TINKER_BASE_URL": loop_server.url,
        "TINKER_API_KEY": loop_server.api_key,
        "TINKER_TELEMETRY": "0",
    }

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        tokenizer = str(loop_server.data / "models" / BASE_MODEL)
        command = [sys.executable, "sweep.py", "--smoke", "--tokenizer", tokenizer, *arguments]
        environment = clean | variables
        return subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=240
        )

    return run


@pytest.mark.timeout(300)
def test_a_sweep_trains_evaluates_compares_and_goes_on_with_what_is_missing(
    sweep: Sweep, tmp_path: Path
) -> None:
    copy = tmp_path / "modular_sft"
    experiments = copy / "experiments-smoke"
    (copy / "wandb.py").write_text(WANDB)
    trained = sweep(RUN_EVAL="0", WANDB_PROJECT="mine")
    assert trained.returncode == 0, trained.stderr
    assert trained.stdout.count("not evaluated") == 2
    first, second = sorted(path.parent for path in experiments.glob("*/checkpoint.json"))
    assert not (copy / "experiments").exists(), "no whole sweep keeps what a smoke has trained"
    told = [line.split() for line in (copy / "told").read_text().splitlines()]
    assert told == [[first.name, "loss"]] * 2 + [[first.name, "held_out_loss_after"]] + [
        [second.name, "loss"]
    ] * 2 + [[second.name, "held_out_loss_after"]]
    checkpoint = json.loads((first / "checkpoint.json").read_text())
    assert checkpoint["steps"] == 2 == len((first / "metrics.jsonl").read_text().splitlines())
    assert (
        checkpoint["state"].startswith("tinker://") and "sampler_weights" in checkpoint["sampler"]
    )
    (second / "checkpoint.json").unlink()  # as a sweep that was interrupted leaves it
    evaluated = sweep()
    assert evaluated.returncode == 0, evaluated.stderr
    assert f"{first.name}: step" not in evaluated.stdout, (
        "what has a checkpoint is not trained again"
    )
    assert (
        f"{second.name}: step 2 of 2" in evaluated.stdout
        and "not evaluated" not in evaluated.stdout
    )
    for folder in (first, second):
        assert set(json.loads((folder / "evaluation.json").read_text())) == {"base", "tuned"}
        replies = [json.loads(line) for line in (folder / "replies.jsonl").read_text().splitlines()]
        assert len(replies) == 4 and all(reply["base"] != reply["tuned"] for reply in replies)
    table = (experiments / "comparison.md").read_text().splitlines()
    again = sweep(RUN_TRAINING="0")
    assert again.returncode == 0 and ": step" not in again.stdout, again.stderr
    assert [row.split(" | ")[0] for row in table[2:]] == [f"| {first.name}", f"| {second.name}"]


def test_a_tracker_that_is_not_installed_is_named_before_anything_is_trained(sweep: Sweep) -> None:
    ran = sweep(WANDB_PROJECT="mine")
    assert ran.returncode == 1 and "pip install wandb" in ran.stderr and ran.stdout == ""


def test_another_tokenizer_or_a_bad_dataset_ends_one_experiment_by_name(
    sweep: Sweep, tmp_path: Path
) -> None:
    (tmp_path / "modular_sft" / "orders.jsonl").write_text(
        '{"messages": [{"role": "user", "content": "Hi"}]}\n'
    )
    ran = sweep()
    assert ran.returncode == 1
    assert (
        "orders.jsonl:1 is no conversation: ValueError: the last message has to be the assistant's"
        in ran.stdout
    )
    assert "2 of 2 experiments failed: smollm2-orders, smollm2-orders-rank-4" in ran.stdout


def report_module() -> Any:
    spec = importlib.util.spec_from_file_location("sft_report", EXAMPLE / "report.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_report_ranks_a_datasets_experiments_and_draws_their_losses(tmp_path: Path) -> None:
    for name, loss in (("a", 1.5), ("b", 0.5)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text(
            json.dumps({"name": name, "base_model": "m", "dataset": "d.jsonl"})
        )
        done = {"steps": 2, "loss_before": 2.0, "loss_after": loss, "minutes": 1.0}
        (folder / "checkpoint.json").write_text(json.dumps(done))
        (folder / "metrics.jsonl").write_text('{"loss": 2.0}\n{"loss": 1.0}\n')
    said = report_module().report(tmp_path)
    rows = [line for line in said.splitlines() if "d.jsonl" in line]
    assert [row.split(" | ")[0] for row in rows] == ["| b", "| a"] and "2.000 to 0.500" in rows[0]
    assert (tmp_path / "comparison.png").read_bytes().startswith(b"\x89PNG")
