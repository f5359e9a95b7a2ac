"""`make gpu`: correctness, speed and GSM8K on this machine's devices, written to
tests/gpu/RESULTS.md.

    python tests/gpu/run.py [--only correctness GSM8K] [--dollars-per-device-hour 2.50]
    python tests/gpu/run.py --smoke            on a CPU, to see that the command is right; writes dist/gpu-smoke.md

Each part is a process of its own with a deadline (parts.py; report.py has the contract). One that
fails is in the table with its last words, the others still run, and the status is 1. What this
machine cannot run is named there with why. The page is written after each part.
"""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from gpu.machine import Machine, machine_look  # noqa: E402
from gpu.page import page_write  # noqa: E402
from gpu.parts import PARTS, SMOKE_DEADLINE_S, Outcome, part_run  # noqa: E402
from gpu.report import Report  # noqa: E402

RESULTS, SMOKE_RESULTS = ROOT / "tests" / "gpu" / "RESULTS.md", ROOT / "dist" / "gpu-smoke.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument(
        "--only",
        nargs="+",
        choices=PARTS,
        default=list(PARTS),
        metavar="PART",
        help=", ".join(PARTS),
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="on a CPU, with tiny models: whether the command is right",
    )
    parser.add_argument("--results", type=Path, help=f"the page, else {RESULTS.relative_to(ROOT)}")
    parser.add_argument(
        "--dollars-per-device-hour", type=float, help="what a GPU costs, for sums in dollars"
    )
    wanted = parser.parse_args()
    page = wanted.results or (SMOKE_RESULTS if wanted.smoke else RESULTS)
    machine = machine_look(smoke=wanted.smoke)
    made = machine.words()
    print(made, *(f"WARNING: {warning}" for warning in machine.warnings), sep="\n", flush=True)
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted.only:
            print(f"{name} ...", flush=True)
            outcomes.append(run(name, machine, Path(folder), wanted))
            print(f"{name}: {outcomes[-1].ended}, {outcomes[-1].took_s:.0f} s", flush=True)
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(page_write(page.read_text() if page.exists() else "", outcomes, made))
    print(f"written: {page}")
    return int(any(outcome.is_failure for outcome in outcomes))


def run(name: str, machine: Machine, folder: Path, wanted: argparse.Namespace) -> Outcome:
    """A part, or why this machine cannot run it."""
    part = PARTS[name]
    if lacking := [why for need in part.needs if (why := machine.lacks(need))]:
        return Outcome(name, f"not run: {'; '.join(lacking)}", Report())
    options = ["--smoke"] if wanted.smoke else []
    if part.has_price and wanted.dollars_per_device_hour is not None:
        options += ["--dollars-per-device-hour", str(wanted.dollars_per_device_hour)]
    return part_run(
        name, part, folder, options, SMOKE_DEADLINE_S if wanted.smoke else part.deadline_s
    )


if __name__ == "__main__":
    sys.exit(main())
