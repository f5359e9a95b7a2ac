"""A run of `make test` that did not pass counts as failed, whatever its output has."""

import subprocess

import pytest
import runs


def test_the_commands_are_those_of_the_makefile() -> None:
    assert [("--quick" in command, "--smoke" in command) for command in runs.commands()] == [
        (True, True)
    ]


@pytest.mark.parametrize(
    ("output", "status", "failed", "names"),
    [
        ("== 5 passed, 1 skipped in 2.10s ==\n", 0, 0, ()),
        (
            "FAILED tests/a.py::test_b - why\n== 2 failed, 3 passed, 1 error in 2s ==\n",
            1,
            3,
            ("tests/a.py::test_b",),
        ),
        ("== 5 passed in 2.10s ==\n", 3, 1, ("status 3",)),  # ended after its last test
        ("", 5, 1, ("status 5",)),
    ],
)
def test_a_run_fails_by_its_counts_and_by_its_status(
    output: str, status: int, failed: int, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.CompletedProcess([], status, output, "")
    monkeypatch.setattr(runs, "commands", lambda: [["pytest"]])
    monkeypatch.setattr(runs, "commit", lambda: "abc1234")
    monkeypatch.setattr(runs.subprocess, "run", lambda *_, **__: done)
    found = runs.run()
    assert (found.failed, found.names, found.commit) == (failed, names, "abc1234")


def test_one_that_does_not_end_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("pytest", runs.DEADLINE_S)

    monkeypatch.setattr(runs, "commit", lambda: "abc1234")
    monkeypatch.setattr(runs.subprocess, "run", hang)
    assert runs.run().failed == len(runs.commands())


@pytest.mark.parametrize(
    ("head", "status", "said"),
    [
        ("abc1234", "", "abc1234"),
        ("abc1234", " M console/urls.py", "abc1234, changed"),
        (None, None, "without a commit"),
    ],
)
def test_the_table_names_the_commit_and_what_passed(
    head: str | None, status: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "git", lambda *asked: head if "HEAD" in asked else status)
    assert runs.commit() == said
    done = [runs.Run(400.0, 5, 0, commit=said), runs.Run(401.0, 4, 1, ("test_a",), said)]
    assert (
        f"2 of 20 runs in a row of its pytest command (`tests/runs.py`): 1 passed. Commit {said};"
        in (runs.page(done, 20))
    )
