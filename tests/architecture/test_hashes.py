"""requirements/hashes.sh: each lock is written anew from its requirements, whole or not at all."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
NOT_WRITTEN = {"vllm-cuda.lock", "uv.lock"}  # versions alone, from which others are made; and what is installed first

# In the place of the interpreter that makes an environment for uv, and of the one in it.
PYTHON = """#!/bin/sh
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "$FAKE_UV" "$3/bin/uv" ;;
  *"--require-hashes -r uv.lock") ;;
  *) exit 9 ;;
esac
"""
# In the place of uv: each requirement with a hash made of its name, and with torch what that brings. Of the file BROKEN
# it prints the first line alone.
UV = r"""
import hashlib, os, re, sys

assert sys.argv[1:3] == ["pip", "compile"] and "--generate-hashes" in sys.argv
files, options = [], iter(sys.argv[3:])
for option in options:
    if option in ("-c", "--python-version", "--python-platform", "--only-binary", "--no-binary"):
        next(options)
    elif option == "--default-index":
        assert next(options) == os.environ["TORCH_INDEX"]
    elif not option.startswith("-"):
        files.append(option)
names = [match[0] for path in files for line in open(path) if (match := re.match(r"[A-Za-z0-9._-]+", line))]
if "torch" in names and "--no-deps" not in sys.argv:
    names += ["nvidia-cublas", "cuda-toolkit", "triton"]
for name in names:
    print(f"{name}==1 \\\n    --hash=sha256:{hashlib.sha256(name.encode()).hexdigest()}", flush=True)
    if any(os.path.basename(path) == os.environ["BROKEN"] for path in files):
        sys.exit("no such version")
"""


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    shutil.copytree(REQUIREMENTS, tmp_path / "requirements")
    for name, text in (("python", PYTHON), ("uv", f"#!{sys.executable}\n{UV}")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path / "requirements"


def write(
    requirements: Path, broken: str = "", torch: str = "https://index.test/cpu"
) -> subprocess.CompletedProcess[str]:
    home, given = requirements.parent, {"BROKEN": broken, "TORCH_INDEX": torch}
    environment = os.environ | {"PYTHON": str(home / "python"), "FAKE_UV": str(home / "uv")} | given
    command = ["bash", str(requirements / "hashes.sh")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def packages(lock: Path) -> set[str]:
    return set(re.findall(r"^([A-Za-z0-9._-]+)==1 ", lock.read_text(), re.MULTILINE))


def test_every_lock_with_hashes_is_written_anew_and_torch_is_in_its_own_alone(requirements: Path) -> None:
    done = write(requirements)
    assert done.returncode == 0, done.stderr
    locks = {path.name: path for path in requirements.glob("*.lock") if path.name not in NOT_WRITTEN}
    for name, path in locks.items():
        first, *lines = path.read_text().splitlines()
        assert first.startswith("# What ") and first.endswith("Made by requirements/hashes.sh."), name
        assert lines and all(re.fullmatch(r"\S+==1 \\|    --hash=sha256:[0-9a-f]{64}", line) for line in lines), name
    of_torch = {"torch", "nvidia-cublas", "cuda-toolkit"}
    assert {name for name, path in locks.items() if packages(path) & of_torch} == {
        "torch.lock", "torch-cpu.lock", "runtime-torch.lock", "runtime-cuda.lock",
    }  # fmt: skip
    assert packages(locks["runtime-source.lock"]) == {"deepspeed"} <= packages(locks["trainer.lock"])
    assert "deepspeed" not in packages(locks["runtime-cpu.lock"]) | packages(locks["runtime-cuda.lock"])
    assert {"tinker", "tinker-cookbook"} <= packages(locks["cookbook.lock"])


@pytest.mark.parametrize(
    "broken", ["trainer.txt", "trl.txt", "torch.txt", "torch-cpu.txt", "tinker.txt", "cookbook.txt"]
)
def test_a_lock_of_which_a_part_was_found_stays_as_it_was(broken: str, requirements: Path) -> None:
    before = {path.name: path.read_bytes() for path in requirements.glob("*.lock")}
    done = write(requirements, broken)
    assert done.returncode != 0 and "no such version" in done.stderr
    lock = requirements / broken.replace(".txt", ".lock")
    assert lock.read_bytes() == before[lock.name]
    assert {path.name for path in requirements.iterdir()} == {path.name for path in REQUIREMENTS.iterdir()}


def test_the_lock_of_torch_for_cpus_stays_where_its_index_is_not_named_unless_the_version_is_new(
    requirements: Path,
) -> None:
    before = (requirements / "torch-cpu.lock").read_bytes()
    done = write(requirements, torch="")
    assert done.returncode == 0 and "torch-cpu.lock stays as it is" in done.stderr
    assert (requirements / "torch-cpu.lock").read_bytes() == before
    assert packages(requirements / "cookbook.lock"), "what comes after it is written"
    (requirements / "torch.txt").write_text("torch==999.0\n")
    done = write(requirements, torch="")
    assert done.returncode == 1 and "set TORCH_INDEX" in done.stderr
