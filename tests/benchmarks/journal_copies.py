"""What copying a session's journal to the store costs each minute: bytes sent, and seconds of this
machine's work.

    .venv/bin/python tests/benchmarks/journal_copies.py --episodes 10000 --turns 8 --minutes 8 --per-minute 20

The journal is filled with episodes of ``--turns`` calls of 200 sampled tokens with
log-probabilities and 4 KB of text; then each minute brings ``--per-minute`` more, and one copy. The
store is left out: a copy is made, compared and counted as the runtime does it. "whole" is the size
of the journal, which was sent before there were changes.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk")]

from gpu_runtime.journal.journal import Journal  # noqa: E402
from gpu_runtime.journal.records import CallRecord, Completion  # noqa: E402
from gpu_runtime.object_store.journal_replica import JournalReplica  # noqa: E402
from gpu_runtime.object_store.transfer import file_sha256  # noqa: E402
from tinkerscript.wire.episodes import WorkflowOutput  # noqa: E402

SAMPLED, MESSAGE_CHARACTERS = 200, 4096


class CountingStore:
    """In place of the object store."""

    sent_bytes = 0

    async def journal_replicate(self, path: Path, *, follows: Sequence[str] = ()) -> str:
        """As ObjectStore's, without sending anything."""
        self.sent_bytes += path.stat().st_size
        return await asyncio.to_thread(file_sha256, path)


def episode_play(journal: Journal, number: int, turns: int, draw: random.Random) -> None:
    episode_id = f"epi_{draw.getrandbits(64):016x}"
    journal.episodes.begin(episode_id, task=f"task {number // 8}", eval=False, deadline_at=2e9)
    for turn in range(turns):
        sampled = tuple(draw.choices(range(50_000), k=SAMPLED))
        text = draw.randbytes(MESSAGE_CHARACTERS // 2).hex()
        answer = Completion(
            choice=0, token_ids_T=sampled, logprobs_T=tuple(draw.uniform(-3, 0) for _ in sampled),
            versions_T=tuple(0 for _ in sampled), text=text, finish_reason="stop",
            message={"role": "assistant", "content": text}, splice_key=f"{turn}", top_logprobs_T=(),
        )  # fmt: skip
        call_id = f"chatcmpl-{draw.getrandbits(64):016x}"
        journal.calls.record(
            CallRecord(call_id, episode_id, sampled, (answer,), begun_at=1.0, ended_at=2.0)
        )
    journal.episodes.end(episode_id, WorkflowOutput(reward=1.0), {})


async def measure(options: argparse.Namespace, folder: Path) -> None:
    journal, draw = Journal(folder / "journal.sqlite3", min_free_bytes=0), random.Random(1)
    journal.database.connection.execute("PRAGMA synchronous = OFF")
    with journal.database.transaction():
        for number in range(options.episodes):
            episode_play(journal, number, options.turns, draw)
    store = CountingStore()
    replica = JournalReplica(store, journal, folder)  # type: ignore[arg-type]
    await replica.renew()
    print(f"{options.episodes} episodes of {options.turns} calls: {store.sent_bytes / 1e6:.0f} MB")
    print("minute  new episodes  whole MB  sent MB  seconds")
    begun_bytes = store.sent_bytes
    for minute in range(1, options.minutes + 1):
        for number in range(options.per_minute):
            episode_play(
                journal,
                options.episodes + minute * options.per_minute + number,
                options.turns,
                draw,
            )
        before, begun = store.sent_bytes, time.monotonic()
        await replica.renew()
        whole, sent = (folder / "journal-copy.sqlite3").stat().st_size, store.sent_bytes - before
        took_s = time.monotonic() - begun
        print(
            f"{minute:6}  {options.per_minute:12}  {whole / 1e6:8.1f}  {sent / 1e6:7.2f}  {took_s:7.1f}",
            flush=True,
        )
    print(f"mean sent {(store.sent_bytes - begun_bytes) / options.minutes / 1e6:.2f} MB a minute")
    journal.close()


def main() -> None:
    """Fill, then a copy a minute, without waiting for the minutes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("episodes", 10_000), ("turns", 8), ("minutes", 8), ("per-minute", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    with tempfile.TemporaryDirectory(prefix="journal-copies-") as folder:
        asyncio.run(measure(parser.parse_args(), Path(folder)))


if __name__ == "__main__":
    main()
