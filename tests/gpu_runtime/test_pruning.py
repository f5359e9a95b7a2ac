"""A pruned journal reads as a whole one: whatever episodes, steps, restarts, kills and losses come,
in any order.
"""

import asyncio
import gzip
import json
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.archive import parts
from gpu_runtime.archive.table import episode_row
from gpu_runtime.episodes.batch_export import batch_lines
from gpu_runtime.episodes.call_views import episode_calls
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.records import CallRecord
from gpu_runtime.journal.removal import CallsPruned, episodes_prunable, episodes_prune
from gpu_runtime.trajectories import reporter as reporter_module
from gpu_runtime.trajectories import stored_calls
from gpu_runtime.trajectories.documents import document_pack, episode_document
from gpu_runtime.trajectories.outbox import (
    documents_due,
    documents_stored,
    reporting_begin,
    rows_due,
    rows_reported,
)
from gpu_runtime.trajectories.reporter import EpisodeReporter
from gpu_runtime.trajectories.rows import episode_row as reported_row
from gpu_runtime.trajectories.stored_calls import document_calls
from gpu_runtime.trajectories.token_texts import TokenTexts
from support.fake_control_plane import FakeControlPlane
from support.light_tokenizer import LightTokenizer
from support.random_calls import calls_of
from support.runtime_harness import PAIRS, batches_of, learner_open, plane_assign, volume_fill
from support.waiting import eventually
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import WorkflowOutput
from tinkerscript.wire.runtime import Assignment

FORK = multiprocessing.get_context("fork")
LIFE_S = 60.0


@dataclass
class World:
    """A journal and what a store would have of it. ``prunes``: whether its journal is pruned when
    it may be.
    """

    folder: Path
    texts: TokenTexts
    prunes: bool
    committed: int = 0
    pruned: int = 0
    documents: dict[str, bytes] = field(default_factory=dict)
    archive: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, str] = field(default_factory=dict)  # that the control plane was told

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.open()
        self.journal.database.backup(self.folder / "copy")

    def open(self) -> None:
        self.journal = Journal(
            self.folder / "journal.sqlite3", min_free_bytes=0, now=lambda: 1000.0
        )
        self.journal.database.connection.execute("PRAGMA synchronous = OFF")

    def do(self, what: str, draw: random.Random) -> None:
        """One thing that happens to a session; ``draw`` decides the rest of it."""
        getattr(self, what)(draw)

    def play(self, draw: random.Random) -> None:
        name = f"e{self.journal.episodes.accounting().begun}"
        self.journal.episodes.begin(
            name,
            task=draw.choice("ab"),
            eval=draw.random() < 0.2,
            deadline_at=2e9,
            begin_key=f"k{name}",
        )
        for call in calls_of(name, draw):
            above = {each.id: each for each in self.journal.calls.of_episode(name)}
            held = (
                len(above[call.parent.call_id].prompt_ids_P) + call.parent.kept
                if call.parent
                else 0
            )
            self.journal.calls.record(call, parent_prefix_length=held)
        how = draw.randrange(6)
        if how == 0:
            self.journal.episodes.abandon(name, "why")
        elif how == 1:
            self.journal.episodes.expire(name, "late")
        elif how > 2:
            self.journal.episodes.end(
                name, WorkflowOutput(reward=draw.random(), metadata={"a": "b"}), {"timelines": 1}
            )

    def batch(self, _: random.Random) -> None:
        step = self.journal.batches.latest_step() + 1
        waiting = [record.id for record in self.journal.episodes.waiting()][:2]
        if len(waiting) == 2 and self.journal.batches.get(step) is None:
            self.journal.batches.record(step, [waiting], step - 1)

    def step(self, draw: random.Random) -> None:
        step = self.journal.batches.latest_step() + 1
        if self.journal.batches.get(step) is not None:
            if draw.random() < 0.2:
                self.journal.batches.discard(step, "refused")
            else:
                members = [
                    name for group in self.journal.batches.get(step).groups for name in group
                ]
                calls = [call for name in members for call in self.journal.calls.of_episode(name)]
                before = {
                    (call.id, answer.choice): tuple(
                        draw.choice([None, -0.5]) for _ in answer.token_ids_T
                    )
                    for call in calls
                    if call.status == "completed"
                    for answer in call.completions
                    if answer.token_ids_T
                }
                after = {
                    at: tuple(None if each is None else -0.25 for each in of)
                    for at, of in before.items()
                }
                self.journal.batches.step_done(step, {}, before, draw.choice([after, {}]))

    def tell(self, draw: random.Random) -> None:
        due = rows_due(self.journal, 100)
        told = due[: draw.choice([len(due), len(due) // 2])]
        for name in (each.episode_id for each in told):
            record = self.journal.episodes.get(name)
            calls = self.journal.calls.of_episode(name) if record.ended_at is not None else []
            self.rows[name] = reported_row(record, calls, None).model_dump_json()
        rows_reported(self.journal, told)

    def store(self, draw: random.Random) -> None:
        due = documents_due(self.journal, 100)
        for each in due[: draw.choice([len(due), len(due) // 2])]:
            name = each.episode_id
            record, calls = self.journal.episodes.get(name), self.journal.calls.of_episode(name)
            self.documents[name] = document_pack(episode_document(record, calls, self.texts))
            documents_stored(self.journal, [each])

    def publish(self, _: random.Random) -> None:
        parts.parts_fix(self.journal, everything=False)
        (self.folder / "copy").unlink()
        self.journal.database.backup(self.folder / "copy")
        for part in parts.parts_unstored(self.journal):
            for name in part.episode_ids:
                row = episode_row(
                    self.journal.episodes.get(name), self.journal.calls.of_episode(name)
                )
                assert self.archive.setdefault(name, row) == row
            parts.part_stored(self.journal, part.number)
        self.committed = max(self.committed, self.journal.batches.latest_step())
        if self.prunes:
            names = episodes_prunable(self.journal.database, committed_step=self.committed)
            episodes_prune(self.journal.database, names)
            self.pruned += len(names)
            self.journal.database.compact(least_bytes=0)

    def restart(self, draw: random.Random) -> None:
        self.journal.close()
        self.open()
        reporting_begin(self.journal)
        self.tell(draw)

    def lose(self, draw: random.Random) -> None:
        """Another machine goes on, with the journal's last copy."""
        self.journal.close()
        for left in self.folder.glob("journal.sqlite3*"):
            left.unlink()
        shutil.copy(self.folder / "copy", self.folder / "journal.sqlite3")
        self.open()
        reporting_begin(self.journal)
        self.tell(draw)

    async def recall(self, episode_ids) -> dict[str, tuple[CallRecord, ...]]:
        """As StoredCalls."""
        return {
            each: tuple(document_calls(json.loads(gzip.decompress(self.documents[each]))))
            for each in episode_ids
        }

    async def reads(self) -> dict[str, Any]:
        """Everything that anybody can read of the session."""
        config = SessionConfig(**PAIRS)
        batches = batches_of(self.journal, config, recall=self.recall)
        found: dict[str, Any] = {
            "accounting": self.journal.episodes.accounting(),
            "archive": self.archive,
        }
        found["rows"] = self.rows
        for record in self.journal.episodes.page(limit=1000):
            found[record.id] = record.view(), self.journal.episodes.of_begin(f"k{record.id}")
            calls = await batches.calls_of(record.id)
            found[f"{record.id} calls"] = episode_calls(calls, start=0, limit=100).model_dump_json()
            if record.ended_at is not None:  # pages of the console
                found[f"{record.id} text"] = episode_document(record, calls, self.texts)
        found["waiting"] = sorted(batches.waiting)
        for name in [
            *map(str, range(1, 2 + self.journal.batches.latest_step())),
            *(
                row["name"]
                for row in self.journal.database.rows("SELECT name FROM refused_batches")
            ),
        ]:
            kept = await batches.kept(name)
            found[f"batch {name}"] = kept and b"".join(batch_lines(kept, ASSIGNMENT))
            if name.isdigit():  # what a replay from any earlier state trains
                found[f"replay {name}"] = (await batches.batch(int(name))) is not None
        return found


ASSIGNMENT = Assignment.model_validate(FakeControlPlane(port=1).assignment() | {"config": PAIRS})
HAPPENS = (
    ["play"] * 6
    + ["batch", "step"] * 3
    + ["tell", "store"] * 4
    + ["publish"] * 4
    + ["restart", "lose"]
)


@pytest.fixture(scope="module")
def texts(model: Path) -> TokenTexts:
    return TokenTexts(LightTokenizer(model))


@pytest.mark.system
async def test_any_course_of_a_session_reads_the_same_as_without_pruning(
    tmp_path: Path, texts: TokenTexts
) -> None:
    pruned = recalled = 0
    for seed in range(5):
        whole = World(tmp_path / f"{seed}-whole", texts, prunes=False)
        lean = World(tmp_path / f"{seed}-lean", texts, prunes=True)
        course = random.Random(seed)
        for at in range(70):
            what = course.choice(HAPPENS)
            for world in (whole, lean):
                world.do(what, random.Random(f"{seed} {at}"))
        expected, found = await whole.reads(), await lean.reads()
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert found[name] == value, (seed, name)
        pruned += lean.pruned
        recalled += lean.journal.database.row(
            "SELECT count(*) AS n FROM stored_documents WHERE pruned"
        )["n"]
        later = lean.journal.batches.after(lean.committed)
        for batch in later:  # never pruned of what the last committed state needs
            assert all(
                lean.journal.calls.of_episode(name) for group in batch.groups for name in group
            )
        for world in (whole, lean):
            assert world.journal.database.row("PRAGMA integrity_check")[0] == "ok"
            assert not world.journal.database.rows("PRAGMA foreign_key_check")
            world.journal.close()
    assert pruned > 25 and recalled > 15, "or nothing was tested"


def test_a_pruned_episode_is_never_taken_for_an_empty_one(
    tmp_path: Path, texts: TokenTexts
) -> None:
    world = World(tmp_path / "world", texts, prunes=True)
    draw = random.Random(3)
    for what in ["play"] * 30 + ["batch", "step"] * 3 + ["tell", "store", "publish"] * 20:
        world.do(what, draw)
    assert world.pruned
    (name, *_) = [row["episode_id"] for row in world.journal.database.rows(
        "SELECT episode_id FROM stored_documents WHERE pruned"
    )]  # fmt: skip
    with pytest.raises(CallsPruned):
        world.journal.calls.of_episode(name)
    world.journal.close()


def calls_kept(volume: Path) -> set[str]:
    """Episodes whose calls the file has."""
    with closing(sqlite3.connect(volume / "journal.sqlite3")) as file:
        return {name for (name,) in file.execute("SELECT DISTINCT episode_id FROM calls")}


@pytest.mark.system
async def test_a_runtime_prunes_after_a_committed_state_and_reads_on_as_before(
    plane, runtime, monkeypatch
) -> None:
    monkeypatch.setattr(stored_calls, "SMALL_BYTES", 0)
    monkeypatch.setattr(reporter_module, "ROWS_EVERY_S", 0.05)
    monkeypatch.setattr(reporter_module, "PACK_EVERY_S", 0.0)

    async def read(it, names: list[str]) -> list[str]:
        paths = [f"/episodes/{name}/{what}" for name in names for what in ("calls", "timelines")]
        url, headers = f"http://{it.status['address']}", {"X-Relay-Key": "relay"}
        answers = [
            await it.http.get(url + path, headers=headers) for path in [*paths, "/batches/1"]
        ]
        assert {answer.status_code for answer in answers} == {200}
        return [answer.text for answer in answers]

    async with runtime(plane) as it:
        await it.play_groups("a", "b")
        await it.stepped(1)
        waits = await it.play("c", 0.5)
        await eventually(
            lambda: [row["fate"] for row in plane.episodes.values()].count("trained") == 4
        )
        await eventually(lambda: len(plane.documents_of([*plane.episodes])) == 5)
        names = sorted(plane.episodes)
        before = await read(it, names)
        it.order("ckp_1", "state")
        await it.committed("ckp_1")
        await eventually(lambda: calls_kept(it.volume) == {waits})
        assert await read(it, names) == before
        it.task.cancel()
    async with runtime(plane) as it:
        assert await read(it, names) == before
        await it.play("c", 1.0)
        await it.play_groups("d")
        await it.stepped(2)
        await it.end("stop")


# -- Kills ------------------------------------------------------------------------------------------------------------


async def live(plane: FakeControlPlane, volume: Path, model: Path, kill_at: int | None) -> None:
    """Two steps, after each of which everything is told, a state is saved and the journal is
    pruned.
    """
    stored_calls.SMALL_BYTES, points, counting = 0, [], [False]

    def tick(point: str) -> None:
        if counting[0]:
            points.append(point)
            if len(points) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    async with learner_open(plane, volume) as it:
        reporter = EpisodeReporter(it.session, it.journal, it.batches, LightTokenizer(model))
        statement = lambda sql: tick(sql) if sql in ("COMMIT", "VACUUM") else None  # noqa: E731
        it.journal.database.connection.set_trace_callback(statement)
        call = it.agent.call

        async def call_and_tick(path, *arguments, **options):
            answer = await call(path, *arguments, **options)
            tick(f"answered {path}")
            return answer

        it.agent.call = call_and_tick
        await it.learner.restore()
        while (batch := await it.batches.next_batch()) is not None:
            with it.batches.stepping():
                await it.learner.train(batch)
            counting[0] = True
            await reporter.flush()
            await it.checkpoints.save_state(batch.step)
            await it.checkpoints.settle()
            counting[0] = False
        lines = {}
        for record in it.journal.episodes.page(limit=100):
            calls = await it.batches.calls_of(record.id)
            lines[record.id] = (
                [call.completions[0].logprobs_T for call in calls],
                record.trained_step,
            )
        pruned = it.journal.database.row("SELECT count(*) AS n FROM stored_documents WHERE pruned")[
            "n"
        ]
        found = {"weights": it.trainer.weights, "lines": lines, "points": points, "pruned": pruned}
        (volume / "found.json").write_text(json.dumps(found))


def life(
    plane: FakeControlPlane, volume: Path, model: Path, kill_at: int | None = None
) -> int | None:
    process = FORK.Process(target=lambda: asyncio.run(live(plane, volume, model, kill_at)))
    process.start()
    process.join(LIFE_S)
    if process.exitcode is None:
        process.kill()
        process.join()
    return process.exitcode


@pytest.mark.system
@pytest.mark.parametrize(
    "apart", [8, pytest.param(1, marks=pytest.mark.nightly)], ids=["each eighth", "each"]
)
def test_a_kill_between_archive_and_pruning_costs_no_call_and_no_bit(
    tmp_path: Path, model: Path, apart: int
) -> None:
    untouched = tmp_path / "untouched"
    volume_fill(untouched, "abc")
    with closing(sqlite3.connect(untouched / "journal.sqlite3")) as file, file:
        file.execute("UPDATE calls SET options = ?", (json.dumps({"text": "x" * 200_000}),))

    def lives(name: str, *kills: int | None) -> dict[str, Any]:
        volume = shutil.copytree(untouched, tmp_path / name)
        with FakeControlPlane(part_size_bytes=1 << 20) as plane:
            plane_assign(plane, model, tasks_per_batch=1, checkpoint_every_steps=100, max_steps=2)
            codes = [life(plane, volume, model, kill_at) for kill_at in kills]
        assert codes == [-signal.SIGKILL if kill_at else 0 for kill_at in kills], name
        return json.loads((volume / "found.json").read_text())

    whole = lives("whole", None)
    assert whole["pruned"] == 4 and {"COMMIT", "VACUUM", "answered /v1/runtime/documents"} <= set(
        whole["points"]
    )
    for kill_at in range(1, len(whole["points"]) + 1, apart):
        found = lives(f"{kill_at}", kill_at, None)
        assert (found["weights"], found["lines"]) == (whole["weights"], whole["lines"]), whole[
            "points"
        ][kill_at - 1]
