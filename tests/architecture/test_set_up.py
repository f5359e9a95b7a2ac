"""Set-up where something fails: it ends at once, leaves nothing running, and its cause is the last thing said."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# In the place of the environment's interpreter: what pip was asked for decides what it does.
PYTHON = """#!/bin/sh
echo "$*" >>calls
case "$*" in
  *launchers.txt*) sleep 1; echo "no matching distribution for launchers"; exit 1 ;;
  *dev.txt*) echo begun >dev; exec sleep 97 ;;
  *+cpu*) echo "no such build"; exit ${NO_CPU_BUILD:-0} ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The set-up and what it reads, with an environment that is made already."""
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "stamps").mkdir()
    python = tmp_path / ".venv" / "bin" / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    version = "{}.{}".format(*sys.version_info)
    (tmp_path / ".venv" / "stamps" / "venv").write_text(f"{tmp_path} python {version}")
    return tmp_path


def set_up(checkout: Path, *steps: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "requirements/install.sh", *steps], cwd=checkout, capture_output=True, text=True, timeout=60,
        env=os.environ | {"PYTHON": sys.executable} | environment,
    )  # fmt: skip


def test_the_first_chain_that_fails_ends_the_others_and_its_cause_comes_last(checkout: Path) -> None:
    began = time.monotonic()
    made = set_up(checkout, "dev", "+", "launchers")
    assert made.returncode == 1 and time.monotonic() - began < 30
    assert (checkout / "dev").exists(), "the other chain was at work"
    last = made.stderr.strip().splitlines()[-2:]
    assert "set-up failed: clients of Docker and Kubernetes" in last[0] and ".venv/setup.log" in last[0]
    assert last[1] == "no matching distribution for launchers"
    left = [path for path in Path("/proc").glob("[0-9]*/cwd") if path.exists() and path.resolve() == checkout]
    assert left == []
    assert "no matching distribution" in (checkout / ".venv" / "setup.log").read_text()


def test_a_failure_is_forgotten_by_the_next_set_up(checkout: Path) -> None:
    assert set_up(checkout, "launchers").returncode == 1
    made = set_up(checkout, "dev", "+", "launchers")
    assert made.stderr.count("set-up failed: clients") == 2, "said when it happened and at the end, of this run alone"


def test_the_quickstart_needs_no_pages(checkout: Path) -> None:
    """Where they cannot be built, here because there is nothing to build them of, the other chains go on."""
    made = set_up(checkout, "swift", "+", "pages")
    assert made.returncode == 0, made.stderr
    assert "goes on without the console's pages" in made.stderr
    assert set_up(checkout, "frontend").returncode != 0


@pytest.mark.parametrize(("missing", "asked"), [("0", ["+cpu"]), ("1", ["+cpu", "torch.txt"])])
def test_torch_is_the_build_for_cpus_where_the_index_has_one(checkout: Path, missing: str, asked: list[str]) -> None:
    made = set_up(checkout, "runtime", NO_CPU_BUILD=missing)
    assert made.returncode == 0, made.stderr
    calls = [line for line in (checkout / "calls").read_text().splitlines() if "torch" in line]
    assert [wanted in call for wanted, call in zip(asked, calls, strict=True)] == [True] * len(asked)
    assert "4.9 GB of this disk" in made.stderr.splitlines()[0] or "4.9 GB" in made.stderr
