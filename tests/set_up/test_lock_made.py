"""requirements/lock.sh: every lock is written anew from its group, or none is."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.system, pytest.mark.smoke]

ROOT = Path(__file__).resolve().parents[2]
# In the place of uv: the packages of a group by their names, each with a hash made of it; torch
# brings others.
UV = rf"""#!{sys.executable}
import hashlib, os, pathlib, re, sys, tomllib

groups = tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]
options = sys.argv[3:]
given = {{name: value for name, value in zip(options, options[1:]) if name.startswith("-")}}
def names(group):
    for each in groups[group]:
        yield from names(each["include-group"]) if isinstance(each, dict) else re.findall(r"^[\w.-]+", each)
asked = [value.partition(":")[2] for name, value in zip(options, options[1:]) if name == "--group"]
found = sorted({{name for group in asked for name in names(group)}})
if "torch" in found:
    found += ["nvidia-cublas", "triton"]
if "--default-index" in options:
    found = ["torch"]
lines = []
for name in found:
    version = "2+cpu" if "--default-index" in options else "2"
    lines.append(f"{{name}}=={{version}} " + chr(92) if "--generate-hashes" in options else f"{{name}}==2")
    if "--generate-hashes" in options:
        lines.append("    --hash=sha256:" + hashlib.sha256(name.encode()).hexdigest())
text = "\n".join(lines) + "\n"
pathlib.Path(given["-o"]).write_text(text) if "-o" in given else sys.stdout.write(text)
sys.exit("no such version" if os.environ["BROKEN"] in asked else 0)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for folder in ("requirements", "tests/environments"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    uv = tmp_path / ".venv" / "bin" / "uv"
    uv.parent.mkdir(parents=True)
    uv.write_text(UV)
    uv.chmod(0o755)
    return tmp_path


def lock(
    checkout: Path, broken: str = "", torch: str = "https://index.test/cpu"
) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    """How it ended, and the locks after it."""
    done = subprocess.run(
        ["bash", "requirements/lock.sh"], cwd=checkout, capture_output=True, text=True, timeout=60,
        env=os.environ | {"BROKEN": broken, "TORCH_INDEX": torch},
    )  # fmt: skip
    return done, {path.stem: path.read_text() for path in checkout.rglob("*.txt")}


def packages(text: str) -> list[str]:
    return re.findall(r"^([A-Za-z0-9._-]+)==2 ", text, re.MULTILINE)


def test_every_lock_is_written_from_its_group_and_torch_for_cpus_from_its_index(
    checkout: Path,
) -> None:
    done, locks = lock(checkout)
    assert done.returncode == 0, done.stderr
    for name, text in locks.items():
        first, *lines = text.splitlines()
        assert (
            first == f"# The group {name} of pyproject.toml, by hash. Made by requirements/lock.sh."
        )
        assert lines and all(
            re.fullmatch(r"\S+==2(\+cpu)? \\|    --hash=sha256:[0-9a-f]{64}", line)
            for line in lines
        )
    assert "nvidia-cublas" in packages(locks["cuda"]) and "nvidia-cublas" not in packages(
        locks["cpu"]
    )
    assert (
        "torch" in packages(locks["cuda"])
        and "\ntorch==2+cpu " in locks["cpu"]
        and "\ntorch==2 " not in locks["cpu"]
    )
    assert packages(locks["cookbook"]) and not {"tiktoken", "torch"} & set(packages(locks["swift"]))


@pytest.mark.parametrize("broken", ["tests", "cuda", "cpu", "litellm", "cookbook"])
def test_where_one_cannot_be_made_all_stay_as_they_were(broken: str, checkout: Path) -> None:
    before = {path.stem: path.read_text() for path in checkout.rglob("*.txt")}
    done, after = lock(checkout, broken)
    assert done.returncode != 0 and "no such version" in done.stderr
    assert after == before


def test_the_hashes_of_torch_for_cpus_stay_where_its_index_is_not_named_unless_the_version_is_new(
    checkout: Path,
) -> None:
    _, made = lock(checkout)
    done, again = lock(checkout, torch="")
    assert done.returncode == 0 and again == made, done.stderr
    path = checkout / "requirements" / "cpu.txt"
    path.write_text(path.read_text().replace("torch==2+cpu ", "torch==1+cpu "))
    done, _ = lock(checkout, torch="")
    assert done.returncode == 1 and "set TORCH_INDEX" in done.stderr
