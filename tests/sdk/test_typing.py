"""The package is typed: strict checkers accept a user's program, and refuse an option that does not
exist.
"""

import json
import os
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest
from pydantic import BaseModel

import tinkerscript
from tinkerscript.sessions.session_options import EngineCorrectionOptions, SessionOptions
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.engine_correction import EngineCorrection

PROGRAM = Path(__file__).parent / "typed_loop.py"
SDK = Path(tinkerscript.__file__).parents[1]
MISTAKES = """
from tinkerscript import TinkerScript

TinkerScript("m", learning_rat=1e-5)
TinkerScript("m", loss="magic")
TinkerScript("m").begin_episode(task=34)
TinkerScript("m", priority="high")
"""


# Silent: an installed package's own lines are not reported either. The large ones that we name in
# one signature each are not read at all: thousands of files, three quarters of the time. Pyright
# reads them.
MYPY_OPTIONS = """
[mypy]
strict = True
follow_imports = silent
[mypy-openai.*,IPython.*,matplotlib.*,numpy.*]
follow_imports = skip
"""


def mypy(folder: Path) -> subprocess.CompletedProcess[str]:
    config = folder / "mypy.ini"
    config.write_text(MYPY_OPTIONS)
    options = [f"--config-file={config}", f"--cache-dir={folder}/.cache"]
    return checked(
        [sys.executable, "-m", "mypy", *options, "good.py", "bad.py"], folder, MYPYPATH=str(SDK)
    )


def pyright(folder: Path) -> subprocess.CompletedProcess[str]:
    settings = {
        "typeCheckingMode": "strict",
        "extraPaths": [str(SDK)],
        "include": ["good.py", "bad.py"],
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "-p",
        "pyrightconfig.json",
        "--pythonpath",
        sys.executable,
    ]
    return checked(command, folder)


def checked(command: list[str], folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **settings}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def test_options_are_those_of_the_wire():
    said = typing.get_type_hints(SessionOptions)
    correction = typing.get_type_hints(said["engine_correction"])
    assert correction == annotations_of(EngineCorrection)
    wanted = annotations_of(SessionConfig) | {"engine_correction": EngineCorrectionOptions}
    assert said == wanted, "SessionConfig has changed: python sdk/write_session_options.py"
    assert SessionOptions.__required_keys__ == frozenset()


def annotations_of(model: type[BaseModel]) -> dict[str, object]:
    return {name: field.annotation for name, field in model.model_fields.items()}


def test_package_is_marked_as_typed():
    assert (Path(tinkerscript.__file__).parent / "py.typed").exists()


@pytest.mark.system
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_strict_checker_accepts_a_users_program_and_finds_its_mistakes(checker, tmp_path):
    (tmp_path / "good.py").write_text(PROGRAM.read_text())
    (tmp_path / "bad.py").write_text(MISTAKES)
    done = checker(tmp_path)
    found = re.findall(r"(\w+\.py):(\d+):.* error: ", done.stdout)
    assert {(name, int(line)) for name, line in found} == {
        ("bad.py", line) for line in (4, 5, 6, 7)
    }, done.stdout
    assert done.returncode == 1, done.stdout + done.stderr
