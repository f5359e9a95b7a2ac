"""How large a session's journal becomes with and without pruning: bytes of the file after each of
many states.

    .venv/bin/python tests/benchmarks/journal_pruning.py --episodes 2000 --turns 8 --per-state 200

Episodes are those of ``journal_copies.py``. After ``--per-state`` of them all are trained, told of
and archived, their documents count as stored, a state is committed, and the journal is pruned as a
runtime does it. Control plane and store are left out.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests" / "benchmarks")]

from journal_copies import episode_play  # noqa: E402

from gpu_runtime.archive.parts import part_stored, parts_fix, parts_unstored  # noqa: E402
from gpu_runtime.journal.journal import Journal  # noqa: E402
from gpu_runtime.journal.removal import episodes_prunable, episodes_prune  # noqa: E402
from gpu_runtime.trajectories.outbox import documents_due, documents_stored, rows_due, rows_reported  # noqa: E402
from gpu_runtime.trajectories.stored_calls import SMALL_BYTES  # noqa: E402


def step_done(journal: Journal) -> int:
    """Train all that waits as one step, and have it told of, archived and stored; the step."""
    step = journal.batches.latest_step() + 1
    journal.batches.record(step, [[record.id for record in journal.episodes.waiting()]], step - 1)
    journal.batches.step_done(step, {})
    rows_reported(journal, rows_due(journal, 10**6))
    documents_stored(journal, documents_due(journal, 10**6))
    parts_fix(journal, everything=False)
    for part in parts_unstored(journal):
        part_stored(journal, part.number)
    return step


def sizes(options: argparse.Namespace, path: Path, *, prunes: bool) -> list[tuple[int, float]]:
    """After each state: bytes of the file, and the seconds that pruning took."""
    journal, draw, found = Journal(path, min_free_bytes=0), random.Random(1), []
    journal.database.connection.execute("PRAGMA synchronous = OFF")
    for first in range(0, options.episodes, options.per_state):
        with journal.database.transaction():
            for number in range(first, first + options.per_state):
                episode_play(journal, number, options.turns, draw)
        step, begun = step_done(journal), time.monotonic()
        if prunes:
            episodes_prune(
                journal.database, episodes_prunable(journal.database, committed_step=step)
            )
            journal.database.compact(least_bytes=SMALL_BYTES)
        took_s = time.monotonic() - begun
        journal.database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        found.append((path.stat().st_size, took_s))
    journal.close()
    return found


def main() -> None:
    """Print both, side by side."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("episodes", 2000), ("turns", 8), ("per-state", 200)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="journal-pruning-") as folder:
        whole = sizes(options, Path(folder) / "whole.sqlite3", prunes=False)
        lean = sizes(options, Path(folder) / "lean.sqlite3", prunes=True)
    print("episodes  whole MB  pruned MB  seconds of pruning")
    for at, ((before, _), (after, took_s)) in enumerate(zip(whole, lean, strict=True), start=1):
        print(
            f"{at * options.per_state:8}  {before / 1e6:8.1f}  {after / 1e6:9.1f}  {took_s:18.2f}"
        )


if __name__ == "__main__":
    main()
