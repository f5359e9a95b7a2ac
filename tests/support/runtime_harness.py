"""A runtime's own parts in this process: real agent and journal, fake engine and trainer, a fake
control plane.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from gpu_runtime import run as run_module
from gpu_runtime.archive.archive import Archive
from gpu_runtime.config import RuntimeConfig
from gpu_runtime.control_plane import agent as agent_module
from gpu_runtime.control_plane.agent import Agent
from gpu_runtime.engine.replicas import Replicas
from gpu_runtime.episodes.batches import Batches
from gpu_runtime.episodes.kept_batches import Recall, none_recalled
from gpu_runtime.episodes.open_episodes import OpenEpisodes
from gpu_runtime.episodes.progress import episodes_follow
from gpu_runtime.events import Events
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.records import CallRecord, Completion
from gpu_runtime.kinds import episodes as episodes_module
from gpu_runtime.loading import tokenizer as tokenizer_module
from gpu_runtime.loop.batching import samples_with_signal
from gpu_runtime.loop.data import loop_data
from gpu_runtime.loop.step_options import loss_settings, step_adam
from gpu_runtime.notifier import ChangeNotifier
from gpu_runtime.object_store.journal_replica import JournalReplica
from gpu_runtime.object_store.uploads import PATIENCE_S, ObjectStore
from gpu_runtime.session import Session
from gpu_runtime.start import start
from gpu_runtime.steps.checkpoints import Checkpoints
from gpu_runtime.steps.comparison import Comparison, Loaded
from gpu_runtime.steps.learner import Learner
from gpu_runtime.steps.resumed_state import weights_fetched
from gpu_runtime.trajectories.stored_calls import StoredCalls
from support.fake_control_plane import LEASE, FakeControlPlane
from support.fakes import FakeEngine, FakeTrainer, Reach
from support.light_tokenizer import LightTokenizer
from support.tiny_tokenizers import build_tokenizer
from support.waiting import eventually
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import WorkflowOutput
from tinkerscript.wire.runtime import Assignment

# Episodes of version 0 must not become stale where a test takes several steps.
PAIRS = {
    "grpo_n": 2,
    "tasks_per_batch": 2,
    "max_staleness": 16,
    "max_context_length": 512,
    "max_tokens": 32,
}


def plane_assign(
    plane: FakeControlPlane, model: Path | None = None, **config: Any
) -> SessionConfig:
    """Answer registrations with groups of two, batches of two groups, ``config``, and the last
    committed state.
    """
    chosen = SessionConfig(**(PAIRS | config))

    def answer(_: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        assignment = plane.assignment() | {
            "config": chosen.model_dump(),
            "base_model_path": str(model or ""),
        }
        return 200, assignment | {
            "resume_from": resume_point(plane),
            "journal_files": plane.journal_files(),
        }

    plane.answers["/v1/runtime/register"] = answer
    return chosen


def resume_point(plane: FakeControlPlane) -> dict[str, Any] | None:
    """The last committed state checkpoint, as a runtime is given it."""
    states = [
        upload
        for upload in plane.uploads.values()
        if upload["kind"] == "state" and upload["committed"]
    ]
    if not states:
        return None
    last = max(states, key=lambda upload: upload["step"])
    name = last["checkpoint_id"]
    files = [file | {"url": f"{plane.url}/s3/{name}/{file['path']}"} for file in last["files"]]
    return {"checkpoint_id": name, "step": last["step"], "files": files}


def tiny_model(folder: Path) -> Path:
    """A base model that only has a tokenizer."""
    if not (folder / "tokenizer.json").exists():
        build_tokenizer(folder)
    return folder


def runtime_config(plane: FakeControlPlane, volume: Path) -> RuntimeConfig:
    return RuntimeConfig(
        server_url=plane.url, lease=LEASE, session_id="ses_0123456789abcdef", runtime_dir=volume
    )


def episode_complete(
    journal: Journal,
    name: str,
    *,
    task: str,
    reward: float,
    version: int = 0,
    begun_at: float = 1.0,
    text: str = "",
) -> None:
    """A completed episode of one call; its tokens are those of ``text``, or of its name."""
    ids = tuple((text or name).encode())
    answer = Completion(
        choice=0, token_ids_T=ids, logprobs_T=(-0.5,) * len(ids), versions_T=(version,) * len(ids), text=name,
        finish_reason="stop", message={"role": "assistant", "content": name},
    )  # fmt: skip
    journal.episodes.begin(name, task=task, eval=False, deadline_at=2e9)
    journal.calls.record(
        CallRecord(f"call-{name}", name, (1, 2), (answer,), begun_at, begun_at + 1.0)
    )
    journal.episodes.end(
        name, WorkflowOutput(reward=reward), {"timelines": 1, "calls": 1, "agents": []}
    )


def volume_fill(
    volume: Path, tasks: Sequence[str], *, rewards: tuple[float, ...] = (0.0, 1.0)
) -> None:
    """A journal in ``volume`` with a full group of waiting episodes for each task; their ids are
    a0, a1, b0...
    """
    journal = Journal(volume / "journal.sqlite3")
    for task in tasks:
        for number, reward in enumerate(rewards):
            episode_complete(journal, f"{task}{number}", task=task, reward=reward)
    journal.close()


@dataclass
class Parts:
    """A learner and all that it works on."""

    plane: FakeControlPlane
    session: Session
    journal: Journal
    batches: Batches
    engine: FakeEngine
    trainer: FakeTrainer
    learner: Learner
    checkpoints: Checkpoints
    points: list[str] = field(default_factory=list)
    failures: dict[str, Exception] = field(default_factory=dict)

    @property
    def assignment(self) -> Assignment:
        return self.session.assignment

    @property
    def agent(self) -> Agent:
        return self.session.agent

    async def train_next(self) -> None:
        """The next full batch, as the runtime's loop trains it."""
        batch = await asyncio.wait_for(self.batches.next_batch(), 25)
        assert batch is not None
        with self.batches.stepping():
            await self.learner.train(batch)

    def fail_at(self, point: str, error: Exception) -> None:
        """Raise ``error`` the next time that the trainer or the engine reaches ``point``."""
        self.failures[point] = error

    def reached(self, name: str) -> int:
        """How often a fake was asked for ``name``."""
        return sum(point.split()[0] == name and not point.endswith("done") for point in self.points)

    async def metrics(self, count: int) -> list[dict[str, Any]]:
        """The step metrics on the session's record, once there are ``count``."""
        await eventually(lambda: len(self._of_kind("metric")) >= count)
        return self._of_kind("metric")

    async def event(self, name: str) -> dict[str, Any]:
        """The event of this name, once it is on the record."""
        await eventually(lambda: any(event["name"] == name for event in self._of_kind("event")))
        return next(event for event in self._of_kind("event") if event["name"] == name)

    def _of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [
            entry["data"] for entry in list(self.plane.entries.values()) if entry["kind"] == kind
        ]

    async def fail_or_hold(self, point: str) -> None:
        self.points.append(point)
        if error := self.failures.pop(point, None):
            raise error


class NoTokenizer:
    """As much of one as an engine needs that generates nothing."""

    end_id = 0


@asynccontextmanager
async def learner_open(
    plane: FakeControlPlane,
    volume: Path,
    *,
    reach: Reach | None = None,
    engine: Any = None,
    trainer: Any = None,
    patience_s: float = PATIENCE_S,
    serves_state: bool = False,
) -> AsyncIterator[Parts]:
    """A runtime without its gateway, before it restores; its journal is that of ``volume`` or else
    the stored one.

    ``engine`` and ``trainer`` are fakes unless given; ``patience_s`` is with a store that is away.
    ``serves_state``: the engine gets the weights of a state before the trainer has loaded it.
    """
    handover, others = volume / "handover", asyncio.all_tasks()
    handover.mkdir(exist_ok=True)
    config = runtime_config(plane, volume)
    async with Agent(config) as agent:
        assignment = await agent.register()
        store = ObjectStore(agent, patience_s=patience_s)
        session = Session(agent, assignment, config, store)
        journal = await session.journal_open()
        stored = StoredCalls(session, journal)
        episodes_follow(agent.events, agent.report, assignment.config)
        batches = batches_of(journal, assignment.config, recall=stored.recall, events=agent.events)
        engine, trainer = engine or FakeEngine(NoTokenizer()), trainer or FakeTrainer()
        archive = Archive(session, journal, JournalReplica(store, journal, volume))
        async with weights_fetched(session) if serves_state else nullcontext() as weights:
            comparison = Comparison(resumes=weights is not None)
            if serves_state:
                comparison.begin(comparison.resumed())
            loaded = Loaded(Replicas.of(engine), trainer, comparison, handover, weights)
            checkpoints = Checkpoints(session, loaded, archive, stored)
            learner = Learner(session, loaded, batches, checkpoints)
            it = Parts(plane, session, journal, batches, engine, trainer, learner, checkpoints)
            engine.reach = trainer.reach = reach or it.fail_or_hold
            try:
                yield it
            finally:
                # uploads under way, which end with a runtime's process
                left = asyncio.all_tasks() - others
                for task in left:
                    task.cancel()
                await asyncio.gather(*left, return_exceptions=True)
    journal.close()


@dataclass
class Running:
    """A whole runtime: ``gpu_runtime.run.Runtime`` with its gateway, on fake engine and trainer."""

    plane: FakeControlPlane
    engine: FakeEngine
    trainer: FakeTrainer
    task: asyncio.Task[None]
    http: httpx.AsyncClient
    volume: Path
    beats_before: int  # of a runtime before this one
    agents: list[Agent]  # its one agent

    @property
    def status(self) -> dict[str, Any]:
        """The last heartbeat."""
        beats = self.plane.bodies("/v1/runtime/heartbeat")[self.beats_before :]
        return beats[-1] if beats else {}

    async def ready(self) -> None:
        """Wait until the gateway serves. Raises what ended the runtime."""
        await eventually(lambda: self.task.done() or self.status.get("address"))
        if self.task.done():
            await self.task

    async def play(self, task: str, reward: float) -> str:
        """One episode of one call; its id."""
        begun = await self.post("/episodes", json={"task": task})
        chat = {"model": "tiny", "messages": [{"role": "user", "content": task}]}
        await self.post(
            "/v1/chat/completions",
            json=chat,
            headers={"Authorization": f"Bearer {begun['api_key']}"},
        )
        await self.post(f"/episodes/{begun['episode_id']}/end", json={"output": {"reward": reward}})
        return begun["episode_id"]

    async def play_groups(self, *tasks: str) -> None:
        """A full group of two episodes for each task."""
        for task in tasks:
            for reward in (0.0, 1.0):
                await self.play(task, reward)

    async def stepped(self, step: int) -> None:
        """Wait until the heartbeats name policy version ``step``."""
        await eventually(lambda: self.task.done() or self.status.get("policy_version") == step)
        assert not self.task.done(), self.task

    def order(self, checkpoint_id: str, kind: str) -> None:
        """Ask for a checkpoint, as a level."""
        wanted = [*self.plane.orders["checkpoints"], {"checkpoint_id": checkpoint_id, "kind": kind}]
        self.plane.orders = self.plane.orders | {"checkpoints": wanted}

    async def committed(self, checkpoint_id: str) -> dict[str, Any]:
        """The upload of a checkpoint, once it is committed."""
        return await upload_committed(self.plane, checkpoint_id=checkpoint_id)

    async def end(self, how: str = "stop") -> None:
        """Order the end and wait for it. Raises what ended the runtime instead."""
        self.plane.orders = self.plane.orders | {"stop": how}
        await asyncio.wait_for(self.task, 60)

    async def post(self, path: str, **options: Any) -> dict[str, Any]:
        """A request to the gateway under the relay key; its response, which must be a success."""
        headers = {"X-Relay-Key": "relay"} | options.pop("headers", {})
        answer = await self.http.post(
            f"http://{self.status['address']}{path}", headers=headers, **options
        )
        assert answer.status_code < 300, answer.text
        return answer.json()


async def upload_committed(plane: FakeControlPlane, **fields: Any) -> dict[str, Any]:
    """The first committed upload with these fields, once there is one."""

    def found() -> list[dict[str, Any]]:
        uploads = plane.uploads.values()
        return [each for each in uploads if each["committed"] and fields.items() <= each.items()]

    await eventually(found)
    return found()[0]


@asynccontextmanager
async def running(
    plane: FakeControlPlane,
    volume: Path,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    patience_s: float = PATIENCE_S,
    comparison: Comparison | None = None,
) -> AsyncIterator[Running]:
    """Run a runtime beside the block, and end it with the block if it has not ended by then.

    ``patience_s`` is with a store that is away. ``comparison`` of the two has passed unless given.
    """
    engine = FakeEngine(LightTokenizer(model))
    trainer = FakeTrainer(model_folder=model)

    @asynccontextmanager
    async def fakes(*_: object) -> AsyncIterator[tuple[FakeEngine, FakeTrainer, Comparison]]:
        try:
            yield engine, trainer, comparison or Comparison()
        finally:
            await engine.close()
            await trainer.close()

    monkeypatch.setattr(episodes_module, "open_engine_and_trainer", fakes)
    monkeypatch.setattr(tokenizer_module, "tokenizer_load", LightTokenizer)
    monkeypatch.setattr(run_module, "ObjectStore", partial(ObjectStore, patience_s=patience_s))
    monkeypatch.setattr(agent_module, "HEARTBEAT_S", 0.1)
    beats_before = len(plane.bodies("/v1/runtime/heartbeat"))
    volume.mkdir(exist_ok=True)
    agents: list[Agent] = []
    task = asyncio.create_task(start(runtime_config(plane, volume), on_agent=agents.append))
    async with httpx.AsyncClient(timeout=30) as http:
        it = Running(plane, engine, trainer, task, http, volume, beats_before, agents)
        try:
            await it.ready()
            yield it
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def batches_of(
    journal: Journal,
    config: SessionConfig,
    *,
    recall: Recall = none_recalled,
    events: Events | None = None,
) -> Batches:
    """The batches of a session of which no episode is open."""
    none_open = OpenEpisodes([], idle_timeout_s=60.0, now=time.time)
    return Batches(journal, config, ChangeNotifier(), none_open, events or Events(), recall)


async def weights_replayed(journal: Journal, config: SessionConfig) -> str:
    """The weights that a trainer of its own ends with, given the journal's batches in order and
    each once.
    """
    batches, trainer, step = batches_of(journal, config), FakeTrainer(), 0
    while (batch := await batches.batch(step + 1)) is not None:
        step = batch.step
        held = await batches.config_at(step)
        if samples := samples_with_signal(batch, held):
            given = loop_data(samples, held), held.loss, loss_settings(held)
            await trainer.forward_backward(*given)
            await trainer.optim_step(await step_adam(trainer, held, step))
    return trainer.weights


def trained_steps(journal: Journal) -> dict[str, int | None]:
    """Which step trained which episode."""
    return {record.id: record.trained_step for record in journal.episodes.page(limit=1000)}
