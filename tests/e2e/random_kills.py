"""SIGKILL at random moments of a session with the real trainer: the weights end bit-identical to an
unkilled run's.

    python tests/e2e/random_kills.py --points 4               as in the suite
    python tests/e2e/random_kills.py --points 500 --seed 7    a longer run; the same seed draws the same moments

Real: DeepSpeed's rank as a process, the learner, the journal, checkpoints over HTTP. Doubles: the
control plane with its object store, and the engine, which only hashes the weights that it is given.
A session trains STEPS journaled batches; its runtime is killed up to KILLS times, at a moment drawn
from its start or from its work: with its rank (as when a machine dies) or the rank alone (as when
the kernel is out of memory). Then, for every session:

- the weights of every version that was served, the last included, hash to what the unkilled run's did;
- every batch was trained as the step that it was journaled for, no episode is lost, the books balance;
- every step was reported once and in order; every state that can be read is whole, and the last step's is there.

One process imports torch and DeepSpeed; every life is a fork of it. Its rank is a process of its
own, which imports them anew.
"""

import argparse
import asyncio
import hashlib
import json
import math
import multiprocessing
import os
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]
os.environ.update(
    DS_ACCELERATOR="cpu",
    OMP_NUM_THREADS="1",
    OPENBLAS_NUM_THREADS="1",
    TOKENIZERS_PARALLELISM="false",
)

FORK = multiprocessing.get_context("fork")
STEPS, KILLS = 9, 5
GROUPS, MEMBERS = 2, 4
CONFIG = {
    "grpo_n": MEMBERS, "tasks_per_batch": GROUPS, "max_staleness": 16, "max_steps": STEPS, "checkpoint_every_steps": 3,
    "learning_rate": 1e-3, "max_context_length": 64, "micro_batch_tokens": 64,
}  # fmt: skip
LIFE_S = 180.0  # a life that takes longer hangs


class Failed(Exception):
    """A promise was broken; the message says which."""


class HashingEngine:
    """As much of an engine as the learner needs: it notes the digest of every version that it is
    given.
    """

    context_length, shares_device, dead = 64, False, False

    def __init__(self, served: Path) -> None:
        self.version, self._served = 0, served

    async def load_weights(self, folder: Path, version: int) -> None:
        from support.published_weights import published_weights

        digest = hashlib.sha256()
        for name, tensor in sorted(published_weights(folder).items()):
            digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
        with self._served.open("a") as file:
            file.write(f"{version} {digest.hexdigest()}\n")
        self.version = version


def volume_fill(volume: Path) -> None:
    """The journal of a session whose episodes are all played: STEPS batches of them, and one group
    too many.
    """
    from gpu_runtime.journal.journal import Journal
    from gpu_runtime.journal.records import CallRecord, Completion
    from tinkerscript.wire.episodes import WorkflowOutput

    rng = random.Random(0)
    journal = Journal(volume / "journal.sqlite3")
    for group in range(STEPS * GROUPS + 1):
        prompt = tuple(rng.randrange(3, 98) for _ in range(12))
        for member in range(MEMBERS):
            name = f"epi_{group:02d}_{member}"
            ids = tuple(rng.randrange(3, 98) for _ in range(rng.randrange(2, 9)))
            answer = Completion(
                0, ids, (-4.5,) * len(ids), (0,) * len(ids), name, "stop", {"role": "assistant"}
            )
            journal.episodes.begin(name, task=f"task {group}", eval=False, deadline_at=4e9)
            journal.calls.record(
                CallRecord(f"call_{name}", name, prompt, (answer,), begun_at=1.0, ended_at=2.0)
            )
            output = WorkflowOutput(reward=rng.random())
            journal.episodes.end(name, output, {"timelines": 1, "calls": 1, "agents": []})
    journal.close()


def serve_plane(pipe: Connection) -> None:
    """The control plane and the object store, until asked to stop; then sends what a session left
    there.
    """
    from support.fake_control_plane import FakeControlPlane
    from support.runtime_harness import plane_assign

    with FakeControlPlane(part_size_bytes=1 << 22, clients_die=True) as plane:
        plane_assign(plane, **CONFIG)
        pipe.send(plane.url)
        pipe.recv()
        metrics = [
            entry["data"]["step"] for entry in plane.entries.values() if entry["kind"] == "metric"
        ]
        events = [
            entry["data"]["name"] for entry in plane.entries.values() if entry["kind"] == "event"
        ]
        states = [u for u in plane.uploads.values() if u["kind"] == "state" and u["committed"]]
        torn = [
            u["step"]
            for u in states
            if not all(_is_stored(plane, u["checkpoint_id"], f) for f in u["files"])
        ]
        pipe.send(
            {
                "metrics": metrics,
                "events": events,
                "states": [u["step"] for u in states],
                "torn": torn,
            }
        )


def _is_stored(plane: Any, checkpoint_id: str, file: dict[str, Any]) -> bool:
    whole = plane.objects.get(f"{checkpoint_id}/{file['path']}", b"")
    return hashlib.sha256(whole).hexdigest() == file["sha256"]


def life(url: str, volume: Path, model: Path, pipe: Connection) -> None:
    """One runtime, in a process group of its own, until every step is done."""
    os.setsid()
    log = os.open(volume / "life.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    from gpu_runtime.loop import logprob_mismatch
    from gpu_runtime.training import ranks
    from tinkerscript.wire.config import SessionConfig

    # the log-probabilities of these episodes are made up
    logprob_mismatch.BOUNDS["float32"] = math.inf
    trainer = ranks.TrainerRanks(str(model), SessionConfig(**CONFIG), "cpu")
    asyncio.run(live(url, volume, trainer, pipe))


async def live(url: str, volume: Path, trainer: Any, pipe: Connection) -> None:
    """Restore and train until ``max_steps``, as the runtime's loop does; the weights of a state are
    served from it.
    """
    from support.runtime_harness import learner_open

    engine = HashingEngine(volume / "served")
    try:
        opened = learner_open(
            SimpleNamespace(url=url), volume, engine=engine, trainer=trainer, serves_state=True
        )
        async with opened as it:
            await trainer.ready()  # the rank starts with its first command
            pipe.send([process.pid for process in trainer.processes])
            await it.learner.restore()
            pipe.send("restored")
            while (batch := await it.batches.next_batch()) is not None:
                with it.batches.stepping():
                    await it.learner.train(batch)
            await it.checkpoints.settle()
            await it.agent.flush(60)
    finally:
        await trainer.close()


@dataclass
class Session:
    """One session from its first life to its last. ``rng`` draws the kills; none without one."""

    folder: Path
    model: Path
    rng: random.Random | None = None
    kills: list[str] = field(default_factory=list)
    lives: int = 0
    start_s: float = 0.0
    step_s: float = 0.0
    report: dict[str, Any] = field(default_factory=dict)
    ranks: list[int] = field(default_factory=list)  # process ids, of this life

    def run(self, *, most_kills: int = 0) -> None:
        """Until a life ends by itself with every step done. Raises Failed."""
        self.folder.mkdir(parents=True)
        volume_fill(self.folder)
        ours, theirs = FORK.Pipe()
        plane = FORK.Process(target=serve_plane, args=(theirs,))
        plane.start()
        try:
            url = ours.recv()
            while not self._live(url, most_kills):
                pass
            ours.send("stop")
            self.report = ours.recv()
        finally:
            plane.kill()
            plane.join()

    def _live(self, url: str, most_kills: int) -> bool:
        """One life; whether it was the last."""
        ours, theirs = FORK.Pipe()
        process = FORK.Process(target=life, args=(url, self.folder, self.model, theirs))
        began, deadline = time.monotonic(), time.monotonic() + LIFE_S
        process.start()
        theirs.close()
        self.lives += 1
        self.ranks = []
        rank_killed = False
        try:
            while self.rng is not None and len(self.kills) < most_kills and process.is_alive():
                phase = self.rng.choice(("start", "work")) if not rank_killed else "after"
                if phase == "work":
                    self._await(ours, "restored", process, deadline)
                wants_rank = self.rng.random() < 0.3 and not rank_killed
                delay_s = self.rng.uniform(
                    0, 2 * self.start_s if phase == "start" else 8 * self.step_s
                )
                process.join(delay_s)
                if not process.is_alive():
                    break
                ranks = self._ranks_by_now(ours) if wants_rank else []
                self.kills.append(f"{'rank' if ranks else 'runtime'} {delay_s:.3f} s after {phase}")
                if ranks:
                    rank_killed = True
                    deadline += LIFE_S  # for another, and the steps since the last state
                    with suppress(ProcessLookupError):
                        os.kill(ranks[0], signal.SIGKILL)
                else:
                    return False
            if self.rng is None:
                self._await(ours, "restored", process, deadline)
                self.start_s, began = time.monotonic() - began, time.monotonic()
                if not self.ranks and process.is_alive():
                    raise Failed("the life named no rank, so that none could be killed alone")
            process.join(max(0.0, deadline - time.monotonic()))
            if process.exitcode is None:
                raise Failed(f"a life hangs:\n{self._log()}")
            self.step_s = self.step_s or (time.monotonic() - began) / STEPS
            if process.exitcode != 0 and not rank_killed:
                raise Failed(f"a life ended with code {process.exitcode}:\n{self._log()}")
            return process.exitcode == 0
        finally:
            for end in (os.killpg, os.kill):
                with suppress(ProcessLookupError):
                    end(process.pid, signal.SIGKILL)
            process.join()
            ours.close()

    def _await(self, pipe: Connection, word: str, process: Any, deadline: float) -> None:
        with suppress(EOFError):
            while process.is_alive() and time.monotonic() < deadline:
                if pipe.poll(0.05) and self._heard(pipe.recv()) == word:
                    return

    def _heard(self, said: Any) -> Any:
        if isinstance(said, list):
            self.ranks = said
        return said

    def _ranks_by_now(self, pipe: Connection) -> list[int]:
        with suppress(EOFError):
            while pipe.poll():
                self._heard(pipe.recv())
        return self.ranks

    def _log(self) -> str:
        return (self.folder / "life.log").read_text(errors="replace")[-4000:]

    def served(self) -> dict[int, set[str]]:
        """The digests that each version was served with."""
        found: dict[int, set[str]] = {}
        for line in (self.folder / "served").read_text().splitlines():
            version, digest = line.split()
            found.setdefault(int(version), set()).add(digest)
        return found

    def ledger(self) -> tuple[dict[str, int | None], dict[str, Any]]:
        """Which step trained which episode, and the accounting."""
        from gpu_runtime.journal.journal import Journal

        journal = Journal(self.folder / "journal.sqlite3")
        try:
            accounting = journal.episodes.accounting()
            if not accounting.balances:
                raise Failed(f"the books do not balance: {accounting}")
            return {
                e.id: e.trained_step for e in journal.episodes.page(limit=10_000)
            }, accounting.model_dump()
        finally:
            journal.close()


def check(session: Session, reference: Session) -> None:
    """Raises Failed for whatever differs from the session that was not killed."""
    expected, served = reference.served(), session.served()
    wrong = [version for version, digests in served.items() if digests != expected[version]]
    if wrong or STEPS not in served:
        raise Failed(
            f"versions {wrong} were served with other weights; served were {sorted(served)}"
        )
    if session.ledger() != reference.ledger():
        raise Failed(
            f"the journal says {session.ledger()}, without kills it says {reference.ledger()}"
        )
    report = session.report
    if (
        report["metrics"] != list(range(1, STEPS + 1))
        or report["torn"]
        or max(report["states"]) != STEPS
    ):
        raise Failed(f"the control plane holds {report}")
    if "step_refused" in report["events"]:
        raise Failed("a step was refused")


def main() -> int:
    """Run until ``--points`` kills were made. 0 when every promise was kept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=25, help="kills to make")
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(2**31), help="draws the moments"
    )
    wanted = parser.parse_args()
    import gpu_runtime.training.trainer  # noqa: F401 - torch, transformers and DeepSpeed, once for all lives
    from support.tiny_model import tiny_model_make

    print(f"--points {wanted.points} --seed {wanted.seed}", flush=True)
    folder, began = Path(tempfile.mkdtemp(prefix="random-kills-")), time.monotonic()
    made, number = 0, 0
    try:
        # In a fork too: a process in which torch has begun its threads must not be forked.
        maker = FORK.Process(target=tiny_model_make, args=(folder / "model",))
        maker.start()
        maker.join()
        reference = Session(folder / "reference", folder / "model")
        reference.run()
        check(reference, reference)
        print(
            f"unkilled: start {reference.start_s:.2f} s, step {reference.step_s:.3f} s", flush=True
        )
        while made < wanted.points:
            number += 1
            session = Session(
                folder / f"{number}", folder / "model", random.Random(f"{wanted.seed}/{number}")
            )
            session.start_s, session.step_s = reference.start_s, reference.step_s
            session.run(most_kills=min(KILLS, wanted.points - made))
            made += len(session.kills)
            print(
                f"session {number}: {session.lives} lives, killed: {json.dumps(session.kills)}",
                flush=True,
            )
            check(session, reference)
            shutil.rmtree(session.folder)
    except Failed as failure:
        print(
            f"FAILED in session {number}: {failure}\nagain: --points {wanted.points} --seed {wanted.seed}"
        )
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"{made} kills in {number} sessions, {time.monotonic() - began:.0f} s: every weight is bit-identical"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
