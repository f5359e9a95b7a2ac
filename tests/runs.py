"""`make test` again and again: what its pytest command took, and whether a test failed.

    .venv/bin/python tests/runs.py [--runs 20]

It writes tests/RUNS.md after each run, with the commit that it ran on, and ends with status 1 where
a run failed. The output of the last run that failed is kept in .data/failed_run.txt. Set-up and
checks are not repeated.
"""

import argparse
import datetime
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from nightly import machine

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "RUNS.md"
LAST_FAILED = ROOT / ".data" / "failed_run.txt"
DEADLINE_S = 3600  # of one command
COUNT = re.compile(r"(\d+) (passed|failed|errors?)\b")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass
class Run:
    """One run of every command. ``failed`` counts errors, and commands that ended so, too."""

    seconds: float = 0.0
    passed: int = 0
    failed: int = 0
    names: tuple[str, ...] = ()
    commit: str = ""


def commit() -> str:
    """What a run is of: the commit's short hash, and whether files differ from it. The table itself
    does not count.
    """
    head = git("rev-parse", "--short", "HEAD")
    if head is None:
        return "without a commit"
    is_changed = git("status", "--porcelain", "--", ".", f":(exclude){TABLE.relative_to(ROOT)}")
    return f"{head}, changed" if is_changed else head


def git(*arguments: str) -> str | None:
    """What git prints; None where this is no checkout of it."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def commands() -> list[list[str]]:
    """The pytest commands of `make test`, as the Makefile has them."""
    recipe = re.search(r"^test:\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None, "the Makefile has the target test"
    lines = [line.strip() for line in recipe[1].splitlines() if "-m pytest" in line]
    assert lines, "it runs pytest"
    return [shlex.split(line.removeprefix("@").replace("$(RUN)", sys.executable)) for line in lines]


def run() -> Run:
    """Every command once, one after the other."""
    found = Run(commit=commit())
    for command in commands():
        began = time.monotonic()
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=DEADLINE_S,
            )
            output, code = done.stdout, done.returncode
        except subprocess.TimeoutExpired:
            output, code = "", -1
        found.seconds += time.monotonic() - began
        counts = counted(output)
        found.passed += counts["passed"]
        found.failed += max(counts["failed"], int(code != 0))
        found.names += tuple(FAILED.findall(output)) or ((f"status {code}",) if code else ())
        if code != 0:
            LAST_FAILED.parent.mkdir(exist_ok=True)
            LAST_FAILED.write_text(output)
    return found


def counted(output: str) -> dict[str, int]:
    """What the last line of pytest's output says."""
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "")
    counts = {"passed": 0, "failed": 0}
    for number, what in COUNT.findall(last):
        counts["passed" if what == "passed" else "failed"] += int(number)
    return counts


def page(runs: list[Run], wanted: int) -> str:
    """The table, as it is so far."""
    today = datetime.datetime.now(datetime.UTC).date()
    rows = [
        f"| {number} | {each.seconds:.0f} | {each.passed} | {each.failed} | {', '.join(each.names)} |"
        for number, each in enumerate(runs, start=1)
    ]
    commits = " and ".join(dict.fromkeys(each.commit for each in runs))
    passed = sum(not each.failed for each in runs)
    lines = [
        "# Runs of `make test`",
        "",
        f"{len(runs)} of {wanted} runs in a row of its pytest command (`tests/runs.py`): {passed} passed. "
        f"Commit {commits}; {today}, {machine()}.",
        "",
        "| run | seconds | passed | failed | which |",
        "| --- | --- | --- | --- | --- |",
        *rows,
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    wanted = max(1, parser.parse_args().runs)
    runs: list[Run] = []
    for number in range(1, wanted + 1):
        runs.append(run())
        TABLE.write_text(page(runs, wanted))
        print(
            f"{number}: {runs[-1].seconds:.0f} s, {runs[-1].passed} passed, {runs[-1].failed} failed",
            flush=True,
        )
    return int(any(each.failed for each in runs))


if __name__ == "__main__":
    sys.exit(main())
