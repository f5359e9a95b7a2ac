"""The whole suite in five parts that run side by side: ``python tests/side_by_side.py [pytest arguments]``.

The quick tests compute and wait by turns, those of the whole loop (tests/e2e) mostly wait for servers, clocks and
browsers, and those with the real engine and trainer take what is left of the machine: one after the other they would
take nearly twice as long. The last lines say what was skipped and why, and the sum of all parts. The exit
status is the first one that is not 0, in this order. What needs no server is in tests/checks.py, which goes first.

Where one to three tests failed of all, they are run once more with the machine to themselves. Those that pass then are
named in the last lines and do not fail the suite: on a machine that other work slows down one failure among thousands
would refuse a change that has nothing to do with it. Each of them is a defect to repair all the same, of the test or of
what it tests: its first failure is printed in full.
"""

import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

OK, TESTS_FAILED = 0, 1  # pytest's exit status
ROOT = Path(__file__).resolve().parents[1]
SCREENSHOTS = ROOT / ".data/screenshots"  # what the console's pages looked like: git ignores it, a pipeline may keep it
# The modules that have tests of the real engine and trainer, and those of them that have no others: to collect all of
# the suite for the first, and to import torch for the second, is computing for nothing.
TEXTS = {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py"))}
ENGINE = [name for name, text in TEXTS.items() if "mark.engine" in text]
ENGINE_ALONE = [name for name in ENGINE if re.search(r"^pytestmark = \[?\s*pytest\.mark\.engine", TEXTS[name], re.M)]
QUICK = ["-m", "not engine and not nightly", *(f"--ignore={name}" for name in ENGINE_ALONE)]
CONTROL_PLANE = ["tests/console", "tests/live"]
CLIENTS = ["tests/agents", "tests/api", "tests/clients", "tests/docker", "tests/launching", "tests/sdk"]
ELSEWHERE = [f"--ignore={folder}" for folder in [*CONTROL_PLANE, *CLIENTS, "tests/e2e", "tests/architecture"]]

# Title, pytest's own choice of tests, and niceness: deadlines of the quick tests are in seconds. No more than that: the
# engine's part is the longest, one process at a time, and left for the end it would use half of the machine.
PARTS = [
    ("The control plane", [*QUICK, *CONTROL_PLANE], 0),
    ("REST, the relay and their clients", [*QUICK, *CLIENTS], 0),
    ("The runtime and other folders", [*QUICK, *ELSEWHERE], 0),
    ("The whole loop", [*QUICK, "tests/e2e"], 0),
    ("The real engine and trainer", ["-m", "engine and not nightly", *ENGINE], 5),
]

MAX_TRIED_AGAIN = 3  # more than that is a cause that is not chance
ERRORS_CHARS = 10_000  # of each part: the last lines of an output are what is kept of it


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        reports = [Path(folder) / f"{index}.xml" for index in range(len(PARTS))]
        outputs = [None, *(report.with_suffix(".log") for report in reports[1:])]
        running = [
            start([*chosen, f"--junitxml={report}", *arguments], nice, output, report.with_suffix(".err"))
            for (_, chosen, nice), report, output in zip(PARTS, reports, outputs, strict=True)
        ]
        try:
            for (title, _, _), process, output in zip(PARTS, running, outputs, strict=True):
                process.wait()
                if output is not None:
                    print(f"\n{title}:\n{output.read_text(errors='replace')}", flush=True)
        except KeyboardInterrupt:
            for process in running:
                process.wait()  # they were interrupted too, and end what they have started
            return 130
        print(summary(reports), flush=True)
        for (title, _, _), process, report in zip(PARTS, running, reports, strict=True):
            errors = report.with_suffix(".err").read_text(errors="replace")
            if errors or not report.exists():  # one that was killed says nothing itself
                print(f"\n{title}: exit status {process.returncode}, and its errors end with\n{errors[-ERRORS_CHARS:]}")
        status = next((process.returncode for process in running if process.returncode), 0)
        failed = failures(reports)
        is_explained = all(
            process.returncode == OK or (process.returncode == TESTS_FAILED and failures([report]))
            for process, report in zip(running, reports, strict=True)
        )
        if is_explained and 0 < len(failed) <= MAX_TRIED_AGAIN:
            status = try_again(failed, arguments, Path(folder) / "again.xml")
    return status


def try_again(failed: list[str], arguments: list[str], report: Path) -> int:
    """Run tests that failed beside the others once more, alone; 0 if each of them passed, not if it was skipped."""
    print("\nOnce more, alone:", flush=True)
    status = start([*failed, f"--junitxml={report}", *arguments], 0, None, None).wait()
    if status == OK and outcomes(report) != dict.fromkeys(failed, "passed"):
        return TESTS_FAILED
    if status == OK:
        names = "\n".join(f"UNSTEADY  {name}" for name in failed)
        print(f"\nfailed beside the others and passed alone; each is a defect to repair:\n{names}", flush=True)
    return status


def start(arguments: list[str], nice: int, output: Path | None, errors: Path | None) -> subprocess.Popen[bytes]:
    """A pytest of its own; what it prints goes to the two files, else to the terminal as it comes.

    Errors are few: where a signal ends Python, what each of its threads did.
    """
    command = [sys.executable, "-m", "pytest", *arguments]
    environment = {"CONSOLE_SCREENSHOTS": str(SCREENSHOTS)} | os.environ
    with ExitStack() as stack:
        stdout, stderr = (path and stack.enter_context(path.open("wb")) for path in (output, errors))
        return subprocess.Popen(
            command, stdout=stdout, stderr=stderr, env=environment, preexec_fn=lambda: os.nice(nice)
        )


def failures(reports: list[Path]) -> list[str]:
    """pytest's ids of all tests that failed, in all ``reports`` that there are."""
    found = [outcomes(report) for report in reports if report.exists()]
    return sorted(name for ended in found for name, outcome in ended.items() if outcome == "failed")


def outcomes(report: Path) -> dict[str, str]:
    """passed, failed or skipped by pytest's id of each test."""
    found: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            found[name] = "failed"
        else:
            found.setdefault(name, "passed" if case.find("skipped") is None else "skipped")
    return found


def summary(reports: list[Path]) -> str:
    """Each reason for which tests were skipped with their number, then the sum over all parts.

    ``reports`` are pytest's JUnit files; a part that died before it wrote one is named.
    """
    passed = failed = 0
    skipped: Counter[str] = Counter()
    lines = []
    for (title, _, _), report in zip(PARTS, reports, strict=True):
        if not report.exists():
            lines.append(f"{title}: ended without a report")
            continue
        for case in ET.parse(report).iter("testcase"):
            reason = case.find("skipped")
            if reason is not None:
                skipped[reason.get("message") or "no reason given"] += 1
            elif case.find("failure") is not None or case.find("error") is not None:
                failed += 1
            else:
                passed += 1
    lines += [f"skipped {count:4}: {reason}" for reason, count in skipped.most_common()]
    return "\n".join(["", *lines, f"{passed} passed, {failed} failed, {skipped.total()} skipped"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
