"""Every check that needs no server: ``python tests/checks.py [NAME...]``, all of them or those that
are named.

Two run at a time; a line for each says how it ended and how long it took. Exit status 1 if one
failed.
"""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / ".venv" / "bin"
NPM = ["npm", "--prefix", "frontend", "run", "--silent"]
SCHEMA_TESTS = ["tests/api/test_openapi.py"]
DEADLINE_S = 900  # a first run of mypy on a busy machine takes minutes, a later one seconds

# The longest first: two run at a time.
CHECKS = {
    "types": [BIN / "python", "-m", "mypy"],
    # How sources and documents are written, that the manual builds without a dead link, what is
    # loaded by what, and that openapi.json is what the routes give.
    "sources": [
        BIN / "python",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/architecture",
        *SCHEMA_TESTS,
    ],
    "vitest": [*NPM, "test"],
    "eslint": [*NPM, "lint"],
    "tsc": [*NPM, "check"],  # the types of openapi.json are written first
    "contracts": [BIN / "lint-imports", "--no-cache"],
    "ruff": [BIN / "ruff", "check"],
    "format": [BIN / "ruff", "format", "--check", "--exclude", "*.md"],
}


@dataclass(frozen=True)
class Outcome:
    """How one check ended: exit status (124 past its deadline), what it printed, seconds."""

    code: int
    output: str
    took_s: float


def run(name: str) -> Outcome:
    began = time.monotonic()
    # Node may be the one that set-up put into the environment; the packages are found without being
    # installed.
    environment = os.environ | {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'sdk'}",
        "NO_COLOR": "1",
    }
    try:
        done = subprocess.run(
            CHECKS[name], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=DEADLINE_S,
        )  # fmt: skip
        code, output = done.returncode, done.stdout + done.stderr
    except FileNotFoundError as error:
        code, output = 127, f"{error}: is set-up complete? make check"
    except subprocess.TimeoutExpired:
        code, output = 124, f"no end within {DEADLINE_S} s"
    return Outcome(code, output, time.monotonic() - began)


def main(names: list[str]) -> int:
    if unknown := set(names) - CHECKS.keys():
        print(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(CHECKS)}")
        return 2
    failed = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        outcomes = {name: pool.submit(run, name) for name in CHECKS if not names or name in names}
        for name, future in outcomes.items():
            outcome = future.result()
            print(
                f"{name:10} {'ok' if outcome.code == 0 else 'FAILED':7} {outcome.took_s:5.1f} s",
                flush=True,
            )
            if outcome.code != 0:
                print(outcome.output, flush=True)
                failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
