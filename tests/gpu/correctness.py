"""The correctness part of `make gpu`: the tests of this folder by pytest, what they skipped and
why, the largest gaps.

A smoke runs those on a CPU that take ``device`` (conftest.py); the others are skipped, as in `make
test`.
"""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from gpu.part import part_parser  # noqa: E402
from gpu.report import Report  # noqa: E402

NOTHING_COLLECTED = 5  # pytest's status
SHOWN = 600  # characters of a failure


@dataclass
class Case:
    """A test as pytest ended it: "passed", "failed" or "skipped" with its reason or failure, and
    what it recorded.
    """

    module: str
    name: str
    ended: str
    words: str = ""
    measured: dict[str, float] = field(default_factory=dict)


def main() -> int:
    wanted = part_parser(__doc__).parse_args()
    report = Report(wanted.json)
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "junit.xml")
        # Warnings are errors in the suite: of what a device's libraries warn of no machine of the
        # suite has seen any.
        command = [sys.executable, "-m", "pytest", "-m", "gpu", "tests/gpu", "-v", "-W", "default"]
        command.append(f"--junitxml={results}")
        environment = os.environ | ({"TESTS_GPU_SMOKE": "1"} if wanted.smoke else {})
        status = subprocess.run(command, cwd=ROOT, env=environment).returncode
        cases = list(cases_read(results)) if results.exists() else []
    tell(report, cases)
    if status not in (0, 1):
        words = (
            "no test was there to run"
            if status == NOTHING_COLLECTED
            else "it ended before its last test"
        )
        report.fail(f"pytest: status {status}, {words}")
    elif not any(case.ended == "passed" for case in cases):
        report.fail("no test has run")
    return report.status


def cases_read(path: Path) -> Iterator[Case]:
    """What pytest's JUnit file says of each test. A test that failed and whose end failed too is
    there once.
    """
    seen = set()
    for element in ElementTree.parse(path).getroot().iter("testcase"):
        module, name = element.get("classname", "").rpartition(".")[2], element.get("name", "")
        if (module, name) in seen:
            continue
        seen.add((module, name))
        properties = element.iter("property")
        measured = {each.get("name", ""): float(each.get("value", "nan")) for each in properties}
        problems = {
            child.tag: child for child in element if child.tag in ("failure", "error", "skipped")
        }
        failed = problems.get("failure", problems.get("error"))
        if failed is not None:
            yield Case(module, name, "failed", f"{failed.get('message')}"[:SHOWN], measured)
        elif "skipped" in problems:
            yield Case(module, name, "skipped", f"{problems['skipped'].get('message')}", measured)
        else:
            yield Case(module, name, "passed", "", measured)


def tell(report: Report, cases: list[Case]) -> None:
    """The numbers by module, the largest of each recorded gap, each failure, and each reason of
    skipping.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    gaps: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
    skipped: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        counts[case.module][case.ended] += 1
        for what, value in case.measured.items():
            gaps[case.module, what].append((value, case.name))
        if case.ended == "failed":
            report.fail(f"{case.module}: {case.name}: {case.words}")
        elif case.ended == "skipped":
            skipped[case.words].append(case.module)
    table = report.table("Tests", ["module", "passed", "failed", "skipped"])
    for module, count in sorted(counts.items()):
        report.row(table, module, count["passed"], count["failed"], count["skipped"])
    if gaps:
        table = report.table("Largest gaps", ["module", "what", "largest", "of so many", "in"])
        for (module, what), values in sorted(gaps.items()):
            value, name = max(values)
            report.row(table, module, what, f"{value:.1e}", len(values), name)
    for why, modules in skipped.items():
        report.leave_out(f"{len(modules)} tests of {', '.join(sorted(set(modules)))}", why)


if __name__ == "__main__":
    sys.exit(main())
