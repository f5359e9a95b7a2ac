"""The package is typed: strict checkers accept a user's program, and refuse an option that does not exist."""

import os
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import tinkerscript
from tinkerscript.sessions.session_options import SessionOptions
from tinkerscript.wire.config import SessionConfig

PROGRAM = Path(__file__).parent / "typed_loop.py"
SDK = Path(tinkerscript.__file__).parents[1]
MISTAKES = """
from tinkerscript import TinkerScript

TinkerScript("m", learning_rat=1e-5)
TinkerScript("m", loss="magic")
TinkerScript("m").begin_episode(task=34)
TinkerScript("m", priority="high")
"""


# Silent: an installed package's own lines are not reported either. The large ones that we name in one signature each
# are not read at all: thousands of files, three quarters of the time. Pyright reads them.
MYPY_OPTIONS = """
[mypy]
strict = True
follow_imports = silent
[mypy-openai.*,IPython.*,matplotlib.*,numpy.*]
follow_imports = skip
"""


def mypy(program: Path) -> subprocess.CompletedProcess[str]:
    config = program.parent / "mypy.ini"
    config.write_text(MYPY_OPTIONS)
    options = [f"--config-file={config}", f"--cache-dir={program.parent}/.cache"]
    return checked([sys.executable, "-m", "mypy", *options, str(program)], program, MYPYPATH=str(SDK))


def pyright(program: Path) -> subprocess.CompletedProcess[str]:
    project = program.parent / "pyrightconfig.json"
    project.write_text(f'{{"typeCheckingMode": "strict", "extraPaths": ["{SDK}"], "include": ["{program.name}"]}}')
    command = [sys.executable, "-m", "basedpyright", "-p", str(project), "--pythonpath", sys.executable]
    return checked(command, program)


def checked(command: list[str], program: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **settings}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        command, cwd=program.parent, env=environment, capture_output=True, text=True, timeout=280, check=False
    )


def test_options_are_those_of_the_wire():
    said = typing.get_type_hints(SessionOptions)
    assert said == {name: field.annotation for name, field in SessionConfig.model_fields.items()}, (
        "SessionConfig has changed: python sdk/write_session_options.py"
    )
    assert SessionOptions.__required_keys__ == frozenset()


def test_package_is_marked_as_typed():
    assert (Path(tinkerscript.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_strict_checker_accepts_a_users_program_and_finds_its_mistakes(checker, tmp_path):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(PROGRAM.read_text())
    done = checker(good)
    assert done.returncode == 0, done.stdout + done.stderr
    bad.write_text(MISTAKES)
    done = checker(bad)
    assert done.returncode == 1, done.stderr
    found = {int(line) for line in re.findall(r"bad\.py:(\d+):.* error: ", done.stdout)}
    assert found == {4, 5, 6, 7}, done.stdout
