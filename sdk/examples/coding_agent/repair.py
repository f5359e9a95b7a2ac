"""A task: one module of ``repository`` is wrong, and its tests are the reward."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).with_name("repository")
TASKS = ["intervals", "money", "words"]
SMALL = Path(__file__).with_name("small")  # for models that hold no more than a line
SMALL_TASKS = {"total": "a plus b", "rest": "a minus b", "area": "a times b"}
TESTS_S = 30.0
RAN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
WRONG = re.compile(r"(?:failures|errors|skipped|unexpected successes)=(\d+)")


def prompt(task: str) -> str:
    """What the agent is asked to do."""
    return (
        f"The module {task}.py of this folder does not do what its docstring promises. Repair it, "
        "so that"
        f" `python -m unittest tests.test_{task}` passes. Change no test."
    )


def small_prompt(task: str) -> str:
    """The same of a task of ``SMALL_TASKS``."""
    return f"Write the Python function {task}(a, b) that returns {SMALL_TASKS[task]}."


@contextmanager
def working_copy(repository: Path = REPOSITORY) -> Iterator[Path]:
    """A folder of one attempt, with ``repository`` in it and ``home`` beside it."""
    with tempfile.TemporaryDirectory(prefix="coding-agent-", ignore_cleanup_errors=True) as folder:
        shutil.copytree(
            repository, Path(folder) / "repository", ignore=shutil.ignore_patterns("__pycache__")
        )
        (Path(folder) / "home").mkdir()
        yield Path(folder)


def passed(task: str, repository: Path, source: Path = REPOSITORY) -> float:
    """The share of the task's tests that pass, from 0 to 1. The tests are those of ``source``,
    whatever became of the agent's."""
    shutil.rmtree(repository / "tests", ignore_errors=True)
    shutil.copytree(source / "tests", repository / "tests")
    command = [sys.executable, "-B", "-m", "unittest", f"tests.test_{task}"]
    try:
        done = subprocess.run(
            command,
            cwd=repository,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TESTS_S,
        )
    except subprocess.TimeoutExpired:
        return 0.0
    ran = RAN.search(done.stderr)
    if ran is None or int(ran[1]) == 0:
        return 0.0
    wrong = sum(map(int, WRONG.findall(done.stderr.rpartition("\n\n")[2])))
    return 1.0 if done.returncode == 0 and not wrong else max(0, int(ran[1]) - wrong) / int(ran[1])
