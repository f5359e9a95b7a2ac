"""CPU of an episode and of a second in a journal that grows: whether either takes longer with more
episodes.

    .venv/bin/python tests/benchmarks/journal_growth.py --episodes 1000 10000 100000

For each size: milliseconds of CPU of begin + call + end through the gateway's ``Episodes``, of the
accounting that each heartbeat tells, and of a sweep of the outbox. Medians of --rounds. The journal
is filled by its own tables, in one transaction; episodes are trained but for the last batch, as
those of a run are.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from gpu_runtime.journal.records import CallRecord, Completion  # noqa: E402
from gpu_runtime.trajectories.outbox import rows_due, rows_reported  # noqa: E402
from support.gateway_harness import Gateway, running_gateway  # noqa: E402
from tinkerscript.wire.episodes import EpisodeBegin, WorkflowOutput  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=50)
    arguments = parser.parse_args()
    print(
        f"{'episodes':>10} {'begin + call + end, ms':>24} {'accounting, ms':>16} {'outbox, ms':>12}"
    )
    for count in arguments.episodes:
        found = asyncio.run(measure(count, arguments.rounds))
        print(f"{count:>10,} {found[0]:>24.3f} {found[1]:>16.3f} {found[2]:>12.3f}")


async def measure(count: int, rounds: int) -> tuple[float, float, float]:
    with tempfile.TemporaryDirectory() as folder:
        async with running_gateway(Path(folder), max_staleness=16, tasks_per_batch=1024) as gateway:
            fill(gateway, count)
            numbers = iter(range(10**9))

            async def episode() -> None:
                begun = await gateway.episodes.begin(EpisodeBegin(task=f"task {next(numbers)}"))
                gateway.journal.calls.record(call(f"call-{begun.episode_id}", begun.episode_id))
                await gateway.episodes.end(begun.episode_id, WorkflowOutput(reward=1.0))

            async def outbox() -> None:
                rows_reported(gateway.journal, rows_due(gateway.journal, 100))

            return (
                await cpu_ms(episode, rounds),
                await cpu_ms(gateway.episodes.accounting, rounds),
                await cpu_ms(outbox, rounds),
            )


def fill(gateway: Gateway, count: int) -> None:
    """Ended episodes with a call each, known to the control plane."""
    journal = gateway.journal
    with journal.database.transaction() as sql:
        for n in range(count):
            name = f"old-{n}"
            journal.episodes.begin(name, task=f"task {n // 8}", eval=False, deadline_at=4e9)
            journal.calls.record(call(f"call-{name}", name))
            journal.episodes.end(name, WorkflowOutput(reward=float(n % 2)), {"timelines": 1})
        sql.execute("UPDATE episodes SET fate = 'trained', trained_step = seq / 32 + 1")
        sql.execute("DELETE FROM episodes_to_report")


def call(name: str, episode_id: str) -> CallRecord:
    message = {"role": "assistant", "content": "x"}
    answer = Completion(0, (3, 4), (-0.5, -0.5), (0, 0), "x", "stop", message, splice_key="k")
    return CallRecord(name, episode_id, (1, 2), (answer,), begun_at=1.0, ended_at=2.0)


async def cpu_ms(work: Callable[[], Awaitable[object]], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        began = time.process_time()
        await work()
        taken.append(time.process_time() - began)
    return 1e3 * statistics.median(taken)


if __name__ == "__main__":
    main()
