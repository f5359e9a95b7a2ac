"""A small storm in the suite; and a storm that found nothing would have: each promise is seen to be
broken.
"""

import fcntl
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from e2e.session_storm import storm_draw
from e2e.storm_checks import Books, Move, names_problems, problems

from tinkerscript.wire.sessions import Accounting

SESSIONS, KILLS, SEED = 6, 4, 3


@pytest.mark.timeout(420)
def test_no_session_is_lost_or_doubled_while_runtimes_reconciler_and_web_server_are_killed() -> (
    None
):
    """The output tells each kill: the same storm is drawn again by the command that it prints."""
    script = Path(__file__).with_name("session_storm.py")
    options = {"--sessions": SESSIONS, "--kills": KILLS, "--seed": SEED}
    command = [
        sys.executable,
        script,
        *(str(word) for option in options.items() for word in option),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-4000:]
    figures = dict(line.split("  ", 1) for line in ran.stdout.splitlines() if "  " in line.strip())
    said = {name: figure.strip() for name, figure in figures.items()}
    assert said["sessions"].startswith(f"{SESSIONS}: ") and "failed" not in said["sessions"]
    assert said["kills"] == f"{KILLS}: 1 lease, 1 reconcile, 1 runtime, 1 web"
    assert said["broken promises"] == "0"


def test_a_seed_draws_the_same_storm_again_and_another_one_does_not() -> None:
    assert storm_draw(200, 30, 7) == storm_draw(200, 30, 7)
    assert storm_draw(200, 30, 7) != storm_draw(200, 30, 8)
    stories, kills = storm_draw(200, 30, 7)
    assert len({story.name for story in stories}) == 200 and len(kills) == 30
    assert {kill.whom for kill in kills} == {"runtime", "reconcile", "web", "lease", "store", "up"}


# -- What the checks see ----------------------------------------------------------------------------------------------

DAWN = datetime(2030, 1, 1, tzinfo=UTC)


def at(second: float) -> datetime:
    return DAWN + timedelta(seconds=second)


def moves(*states: str, reason: str = "a reason") -> list[Move]:
    sources = [None, *states[:-1]]
    return [
        Move(source, state, reason, at(n))
        for n, (source, state) in enumerate(zip(sources, states, strict=True))
    ]


ONCE = ("queued", "provisioning", "loading", "ready")
DIED = "the runtime's process ended with code -9"
WELL = Books(
    name="storm-000", story="work", state="stopped",
    moves=[*moves(*ONCE), *moves(*ONCE, "queued", *ONCE[1:], "stopping", "stopped", reason=DIED)[4:]],
    steps=[1], shown=Accounting(begun=2, trained=2), ledger=Accounting(begun=3, trained=2, waiting=1),
    fates={"a": "trained", "b": "trained", "c": "accepted"}, leases=[(at(0), at(5)), (at(6), at(9))],
    lives=["l-1", "l-2"], acknowledged=["a", "b"], killed=1,
)  # fmt: skip


def test_a_session_that_was_killed_and_came_back_breaks_no_promise() -> None:
    assert problems(WELL) == []
    assert (
        problems(
            Books(name="", story="cancel", state="cancelled", moves=moves("queued", "cancelled"))
        )
        == []
    )


@pytest.mark.parametrize(
    ("broken", "seen"),
    [
        ({"state": "ready"}, "it is ready"),
        ({"state": "failed"}, "it is failed"),
        ({"state": "cancelled"}, "it was cancelled, though"),
        ({"moves": WELL.moves[:-1]}, "last move does not lead"),
        ({"moves": [*WELL.moves[:2], *WELL.moves[3:]]}, "no chain"),
        ({"moves": [*WELL.moves, Move("stopped", "queued", "", at(99))]}, "it moved from stopped"),
        (
            {"moves": [*WELL.moves[:-1], replace(WELL.moves[-1], reason="")]},
            "no reason is given for stopped",
        ),
        (
            {"moves": [replace(move, reason="woken by a request") for move in WELL.moves]},
            "it was queued again: woken",
        ),
        ({"killed": 0}, "died 1 times and was killed 0 times"),
        ({"leases": WELL.leases[:1]}, "2 launches and 1 leases"),
        ({"leases": [(at(0), at(7)), (at(6), at(9))]}, "after the next runtime registered"),
        ({"lives": ["l-1", "l-1"]}, "2 runtimes lived for 2 launches"),
        ({"lives": ["l-1", "l-2", "l-3"]}, "3 runtimes lived for 2 launches"),
        ({"doubled": True}, "two runtimes lived at one time"),
        ({"held": True}, "a lease or a runtime's handle is left"),
        ({"shown": Accounting(begun=2, trained=1)}, "server's accounting does not balance"),
        ({"ledger": Accounting(begun=2, trained=1)}, "journal's accounting does not balance"),
        ({"acknowledged": ["a", "a"]}, "acknowledged twice"),
        ({"acknowledged": ["a", "d"]}, "acknowledged episodes were lost: d"),
        (
            {"fates": {"a": "trained", "b": None, "c": "accepted"}},
            "acknowledged episodes were lost: b",
        ),
        (
            {"fates": {"a": "trained", "b": "stale", "c": "accepted"}},
            "the journal holds 3 episodes",
        ),
        ({"steps": [1, 1]}, "its steps are [1, 1]"),
        ({"steps": [2]}, "its steps are [2]"),
    ],
)
def test_each_broken_promise_is_seen(broken: dict, seen: str) -> None:
    found = problems(replace(WELL, **broken))
    assert any(seen in problem for problem in found), found


def test_a_second_runtime_beside_a_first_leaves_its_mark(tmp_path: Path) -> None:
    """A lock of ours stands for the first. Without its packages (-S) the second ends at once, but
    it has lived.
    """
    command = [sys.executable, "-S", str(Path(__file__).with_name("storm_runtime.py"))]
    with (tmp_path / "alone.lock").open("w") as first:
        for is_alone in (True, False):
            if not is_alone:
                fcntl.flock(first, fcntl.LOCK_EX)
            ran = subprocess.run(
                command,
                cwd=tmp_path,
                env={"TINKERSCRIPT_LAUNCH": "ses_1-1"},
                capture_output=True,
                timeout=60,
            )
            assert ran.returncode != 0
            assert (tmp_path / "doubled").exists() is not is_alone
    assert (tmp_path / "lives").read_text().split() == ["ses_1-1"] * 2


def test_a_session_that_is_lost_or_made_twice_is_seen() -> None:
    assert names_problems(["a", "b"], ["b", "a"]) == []
    assert names_problems(["a", "b"], ["a", "a", "c"]) == [
        "sessions lost: b", "sessions made twice: a", "sessions asked for by no one: c",
    ]  # fmt: skip
