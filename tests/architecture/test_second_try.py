"""What the suite does with a test that failed beside the others: run once more, alone, and named; and with a signal."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN = """
import sys
from pathlib import Path
import side_by_side

sys.exit(side_by_side.main(["-p", "no:cacheprovider"]))
"""


@pytest.fixture
def suite(tmp_path: Path):
    """Runs a suite of one part, made of a test file's text: exit status and output."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "side_by_side.py").write_text((ROOT / "tests" / "side_by_side.py").read_text())

    def run(text: str) -> tuple[int, str]:
        (tmp_path / "tests" / "test_some.py").write_text(text)
        parts = 'side_by_side.PARTS = [("All", ["tests/test_some.py"], 0)]'
        code = RUN.replace("\nsys.exit", f"\n{parts}\nsys.exit")
        variables = os.environ | {"PYTHONPATH": str(tmp_path / "tests"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        ended = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=120
        )
        return ended.returncode, ended.stdout + ended.stderr

    return run


FIRST_TIME = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("name", {names})
def test_first(name):
    mark = Path(f"was-here-{{name}}")
    was_here = mark.exists()
    mark.touch()
    assert was_here

def test_sound():
    pass
"""


def test_one_that_passes_alone_does_not_fail_the_suite_and_is_named(suite) -> None:
    status, printed = suite(FIRST_TIME.format(names=["a.b [c]"]))
    assert status == 0, printed
    assert "1 passed, 1 failed, 0 skipped" in printed, "the first run is counted as it was"
    assert "UNSTEADY  tests/test_some.py::test_first[a.b [c]]" in printed


def test_one_that_fails_again_fails_the_suite(suite) -> None:
    status, printed = suite("def test_wrong():\n    assert False")
    assert (status, "UNSTEADY" in printed) == (1, False)


def test_one_that_is_skipped_the_second_time_was_not_shown_to_pass(suite) -> None:
    skips = FIRST_TIME.format(names=["a"]).replace(
        "assert was_here", "pytest.skip('no browser') if was_here else 1 / 0"
    )
    status, printed = suite(skips)
    assert (status, "UNSTEADY" in printed) == (1, False)


def test_more_than_three_are_no_chance(suite) -> None:
    status, printed = suite(FIRST_TIME.format(names=list("abcd")))
    assert (status, "Once more" in printed) == (1, False)


def test_a_part_that_a_signal_ended_says_which_and_where_in_the_last_lines(suite) -> None:
    status, printed = suite("import os, signal\n\ndef test_ended():\n    os.kill(os.getpid(), signal.SIGSEGV)")
    assert status == -signal.SIGSEGV % 256 and "Once more" not in printed
    last = printed[printed.index("All: ended without a report") :]
    assert "All: exit status -11, and its errors end with" in last and "in test_ended" in last


def test_a_part_that_was_killed_says_so_though_it_wrote_no_word(suite) -> None:
    status, printed = suite("import os, signal\n\ndef test_ended():\n    os.kill(os.getpid(), signal.SIGKILL)")
    assert status == -signal.SIGKILL % 256 and "All: exit status -9" in printed


def test_a_suite_that_could_not_be_read_is_not_tried_again(suite) -> None:
    status, printed = suite("import nothing_of_this_name")
    assert status != 0 and "Once more" not in printed


def test_the_part_of_the_engine_finds_its_modules_by_the_marker_in_them() -> None:
    """One that a fixture or an import gave the marker would be in no part."""
    marker = ".".join(("pytest", "mark", "engine"))
    marked = {path.name for path in (ROOT / "tests").rglob("*.py") if marker in path.read_text()}
    assert {name for name in marked if not name.startswith(("test_", "nightly_"))} == set()
