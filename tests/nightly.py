"""What takes too long for `make test-all`, one after the other.

``python tests/nightly.py [--short] [--only NAME...]``

Each is a program with a deadline; status 0 means that every promise held. A shorter run of each is
in the suite. The table that it prints is docs/nightly.md, where each row has the date and the
machine of its last run.
"""

import argparse
import datetime
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "docs" / "nightly.md"
TAIL = 25  # lines of a failed run's output
LAST_LINE = 80  # characters of it in the table
NEVER = "not run yet"


@dataclass(frozen=True)
class Job:
    """A program of the repository: its arguments, fewer of them for a short run, what it shows, and
    after how long it is taken to hang.
    """

    arguments: list[str]
    short: list[str]
    shows: str
    deadline_s: int


JOBS = {
    "outside agents": Job(
        ["-m", "agents.matrix"], [],
        "agents of other packages, plain and thinking: [Outside agents](agents.md)", 7200,
    ),
    "further cases": Job(
        ["-m", "pytest", "-q", "-m", "nightly"], [],
        "what the suite has one case of: frameworks, families, options", 3600,
    ),
    "exported folders": Job(
        ["tests/exported_folders.py"], [],
        "exported models have the same ids, template and theta under transformers 4.57 and 5, vLLM, llama.cpp", 3600,
    ),
    "kills of a trainer": Job(
        ["tests/e2e/random_kills.py", "--points", "200"], ["--points", "40"],
        "SIGKILLs at random moments of training leave the weights of an undisturbed run", 3600,
    ),
    "storm of sessions": Job(
        ["tests/e2e/session_storm.py", "--sessions", "120", "--kills", "20"], ["--sessions", "20", "--kills", "5"],
        "SIGKILLs of every process of a server: no session lost, none twice", 3600,
    ),
    "fifty people": Job(
        ["tests/e2e/fifty_people.py"], ["--people", "4", "--at-once", "2"],
        "fifty accounts with a session each at once: shares, limits, nothing of one another's", 3600,
    ),
    "learning": Job(
        ["tests/learning/run.py", "--all", "--rate", "3e-5"], ["--smoke"],
        "held-out answers get better on small tasks, with three seeds each", 10800,
    ),
    "examples": Job(
        ["tests/learning/examples.py"], ["hello", "--seeds", "0"],
        "each program of `sdk/examples` with three seeds", 28800,
    ),
    "families": Job(
        ["tests/benchmarks/families.py"], ["Llama", "Gemma 3"],
        "engine and trainer agree on a tiny model of each family, or differ as is known: [Models](models.md)", 3600,
    ),
    "Tinker client, all weights": Job(
        ["-m", "pytest", "-q", "tests/e2e/nightly_tinker.py"], [],
        "a program trains all weights, samples its snapshots and goes on from its state", 1800,
    ),
    "programs of the pages": Job(
        ["-m", "pytest", "-q", "tests/e2e/nightly_snippets.py"], ["-k", "readme"],
        "what README, manual and console show as code, as it is shown, with the real engine and trainer", 7200,
    ),
    "Ray": Job(
        ["-m", "pytest", "-q", "tests/e2e/nightly_ray.py"], [],
        "six workers get one session by pickle: each episode is trained once", 1800,
    ),
    "recipes": Job(
        ["tests/recipes/run.py"], ["sl_loop", "rl_loop", "dpo"],
        "recipes of tinker-cookbook, unmodified and offline: all end, with finite metrics",
        10800,
    ),
    "recipe, killed": Job(
        ["tests/recipes/killed.py"], ["--kills", "2"],
        "`sl_loop` with SIGKILLs at drawn moments saves the bits of an undisturbed run", 3600,
    ),
    "Slurm nodes": Job(
        ["-m", "pytest", "-q", "-m", "nightly", "-k", "slurm", "tests/e2e/test_nodes.py"], [],
        "a session over two nodes of a job, one of which is lost, goes on", 1800,
    ),
    "Kubernetes nodes": Job(
        ["-m", "pytest", "-q", "-m", "nightly", "-k", "cluster", "tests/e2e/test_nodes.py"], [],
        "a session over two nodes, one of which loses its power, goes on", 1800,
    ),
    "Kubernetes, all nodes lost": Job(
        ["-m", "pytest", "-q", "-m", "nightly", "tests/e2e/test_all_nodes_lost.py"], [],
        "a session all of whose nodes lose their power at once goes on at the next node", 1800,
    ),
    "console in Firefox": Job(
        ["-m", "pytest", "-q", "--firefox", "tests/e2e/test_console.py", "tests/e2e/test_console_episodes.py",
         "tests/e2e/test_console_widths.py", "tests/e2e/test_console_translated.py"], [],
        "pages of the console, which the suite opens in Chromium", 3600,
    ),
    "PostgreSQL and Redis": Job(
        ["tests/on_postgres.py"], [], "the control plane's tests on them instead of SQLite", 3600
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How a job ended, in words, its last line of output, and how long it took."""

    name: str
    ended: str
    last_line: str
    took_s: float


def run(name: str, *, short: bool) -> Outcome:
    """Carry out a job; what a failed one printed last is shown."""
    job, began = JOBS[name], time.monotonic()
    # of an option that is given twice the last one counts
    command = [*job.arguments, *(job.short if short else [])]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'sdk'}:{ROOT / 'tests'}"}
    try:
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=job.deadline_s,
        )  # fmt: skip
        ended, outputs = (
            "held" if done.returncode == 0 else f"FAILED ({done.returncode})",
            (done.stdout, done.stderr),
        )
    except subprocess.TimeoutExpired as late:
        ended = f"FAILED (no end within {job.deadline_s} s)"
        outputs = (str(late.stdout or ""), str(late.stderr or ""))
    lines, warned = ([line for line in output.splitlines() if line.strip()] for output in outputs)
    if ended != "held":
        print("\n".join([*lines[-TAIL:], *warned[-TAIL:]]), flush=True)
    ended += ", short" if short and job.short else ""
    return Outcome(name, ended, lines[-1] if lines else "", time.monotonic() - began)


def row(outcome: Outcome) -> str:
    """A line of the table."""
    today = datetime.datetime.now(datetime.UTC).date()
    last, what = (
        outcome.last_line.replace("|", "/").strip()[:LAST_LINE],
        f"{outcome.name}: {JOBS[outcome.name].shows}",
    )
    return (
        f"| {what} | {outcome.ended} | {today} | {outcome.took_s / 60:.1f} | {machine()} | {last} |"
    )


def machine() -> str:
    """What the run had, in words."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    gpu = "a GPU" if Path("/dev/nvidiactl").exists() else "no GPU"
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {gpu}, Python {platform.python_version()}"


def rows_before() -> dict[str, str]:
    """The lines of the page as it is, by the name of their job."""
    lines = TABLE.read_text().splitlines() if TABLE.exists() else []
    return {name: line for name in JOBS for line in lines if line.startswith(f"| {name}: ")}


def page(rows: dict[str, str]) -> str:
    """The page of the manual; a job that has no row yet says so."""
    empty = {name: f"| {name}: {job.shows} | {NEVER} | | | | |" for name, job in JOBS.items()}
    lines = [
        "# The nightly run",
        "",
        "`make nightly` runs what takes hours; `tests/nightly.py` has the command of each job. A row is the last run",
        "of its job; the git log has the earlier ones. The jobs of Kubernetes need `TESTS_KUBERNETES_BIN`, the folder",
        "of a real one's programs, and are skipped without it. A star: other work ran beside it.",
        "",
        "| job | outcome | date | minutes | machine | last line |",
        "| --- | --- | --- | --- | --- | --- |",
        *(empty | rows).values(),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--only", nargs="+", choices=JOBS, default=list(JOBS), metavar="NAME")
    parser.add_argument("--short", action="store_true", help="fewer kills, fewer sessions")
    wanted = parser.parse_args()
    outcomes = []
    for name in wanted.only:
        print(f"{name} ...", flush=True)
        outcomes.append(run(name, short=wanted.short))
        print(f"{name}: {outcomes[-1].ended}, {outcomes[-1].took_s:.0f} s", flush=True)
        TABLE.write_text(page(rows_before() | {name: row(outcomes[-1])}))
    print(TABLE.read_text())
    return int(not all(each.ended.startswith("held") for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
