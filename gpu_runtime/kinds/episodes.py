"""A session of episodes: agents play against its engine, what they played is trained, and the
engine takes it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gpu_runtime.archive.archive import Archive
from gpu_runtime.archive.on_failure import archive_on_failure
from gpu_runtime.background import until_one_fails
from gpu_runtime.control_plane.agent import Agent
from gpu_runtime.engine.replicas import Replicas
from gpu_runtime.episodes.batches import Batches
from gpu_runtime.episodes.ledger import Episodes
from gpu_runtime.episodes.progress import episodes_follow
from gpu_runtime.errors import (
    DiskFull,
    InputUnusable,
    OutOfMemory,
    StoreFull,
    StoreUnavailable,
    UploadRefused,
)
from gpu_runtime.gateway.app import create_app
from gpu_runtime.health.status import Phase
from gpu_runtime.interfaces import Tokenizer
from gpu_runtime.journal.journal import Journal
from gpu_runtime.loading.engine_and_trainer import may_load, open_engine_and_trainer
from gpu_runtime.loading.tokenizer import renderer_of, tokenizer_reading
from gpu_runtime.object_store.journal_replica import JournalReplica
from gpu_runtime.rendering.template_check import template_report
from gpu_runtime.session import Parts, Session
from gpu_runtime.steps.checkpoints import Checkpoints, checkpoint_give_up
from gpu_runtime.steps.comparison import Loaded
from gpu_runtime.steps.learner import Learner
from gpu_runtime.steps.resumed_state import weights_fetched
from gpu_runtime.trajectories.erasure import EpisodeErasure
from gpu_runtime.trajectories.reporter import EpisodeReporter
from gpu_runtime.trajectories.stored_calls import StoredCalls
from gpu_runtime.weights.handover_folder import handover_folder
from tinkerscript.wire.checkpoints import CheckpointKind
from tinkerscript.wire.runtime import PHASE_WAITING, CheckpointOrder, StopReason

log = logging.getLogger(__name__)

# What the next try of the same checkpoint would meet too. A store that is away only delays it.
FAILS = (InputUnusable, DiskFull, OutOfMemory, UploadRefused)


@asynccontextmanager
async def episodes_open(session: Session) -> AsyncIterator["EpisodeParts"]:
    """Load engine and trainer and build the rest. Raises RuntimeFault: what ends the session is
    archived first.
    """
    assignment = session.assignment
    session.status.begin(Phase.LOADING, "loading the engine and the trainer")
    journal = await session.journal_open()
    archive = Archive(session, journal, JournalReplica(session.store, journal, session.volume))
    async with archive_on_failure(session.agent, archive):
        may_load(session)
        with handover_folder(session.config.session_id, assignment.config.nodes) as handover:
            reading, opened = (
                tokenizer_reading(assignment.base_model_path),
                open_engine_and_trainer(session),
            )
            async with (
                reading as read,
                weights_fetched(session) as weights,
                opened as (engine, trainer, comparison),
            ):
                loaded = Loaded(Replicas.of(engine), trainer, comparison, handover, weights)
                yield parts_build(session, journal, archive, loaded, await read)


def parts_build(
    session: Session, journal: Journal, archive: Archive, loaded: Loaded, tokenizer: Tokenizer
) -> "EpisodeParts":
    """Every part that needs no loading. Raises ModelUnsupported."""
    engine = loaded.engine
    agent, assignment, config = session.agent, session.assignment, session.assignment.config
    episodes_follow(agent.events, agent.report, config)
    stored = StoredCalls(session, journal)
    episodes = Episodes(journal, assignment, events=agent.events, recall=stored.recall)
    checkpoints = Checkpoints(session, loaded, archive, stored)
    renderer = renderer_of(tokenizer, assignment.base_model_path, config)
    template_report(agent.report, renderer)
    reporter = EpisodeReporter(session, journal, episodes.batches, tokenizer)
    app = create_app(
        episodes,
        engine,
        renderer,
        assignment,
        on_fault=session.faults.put_nowait,
        erase=EpisodeErasure(episodes, archive, reporter, stored, session.volume).erase,
    )
    return EpisodeParts(
        session=session,
        app=app,
        engine=engine,
        trainer=loaded.trainer,
        clock=engine,
        waiting=PHASE_WAITING,
        journal=journal,
        episodes=episodes,
        loaded=loaded,
        checkpoints=checkpoints,
        archive=archive,
        reporter=reporter,
        learner=Learner(session, loaded, episodes.batches, checkpoints),
    )


@dataclass(frozen=True, kw_only=True)
class EpisodeParts(Parts):
    """What is trained comes from ``episodes`` by way of their batches to ``learner``."""

    journal: Journal
    episodes: Episodes
    loaded: Loaded
    learner: Learner
    checkpoints: Checkpoints
    archive: Archive
    reporter: EpisodeReporter

    async def restore(self) -> int:
        """Load the last state, and train again what the journal holds after it."""
        version = await self.learner.restore()
        await self.episodes.start()
        return version

    def guarded(self) -> AbstractAsyncContextManager[None]:
        """What was played is reported and stored, also where a fault ends the runtime."""
        return self.reporter.flushed_on_failure()

    async def report(self) -> None:
        """Where the episodes are, and while nothing is trained what the coming batch lacks."""
        status, episodes = self.session.status, self.episodes
        status.update(
            accounting=await episodes.accounting(), last_activity_at=episodes.open.last_activity_at
        )
        if status.phase.startswith(PHASE_WAITING):
            beside = "" if self.loaded.comparison.is_over else "; the trainer is loading"
            status.begin(Phase.WAITING, f"{episodes.batches.phase()}{beside}")

    def background(self) -> list[Coroutine[Any, Any, None]]:
        """Copies of the journal, rows and documents of episodes, and the comparison of engine and
        trainer.
        """
        self.loaded.engine.calls_begin()
        interval_s = self.session.assignment.config.journal_interval_s
        return [
            self.archive.replica.keep_fresh(interval_s, at_once=self.session.agent.preempted),
            self.reporter.keep_rows(),
            self.reporter.keep_documents(),
            self.loaded.comparison.passed(),
        ]

    @property
    def judges_trainer(self) -> bool:
        """A rank that ends in the middle of a step or of a checkpoint may be out of memory, which is
        the learner's to judge.
        """
        return self.loaded.trains or self.loaded.writes

    async def work(self) -> None:
        """Train batches and make checkpoints, until the end that was asked for."""
        await work(self.session.agent, self.episodes.batches, self.learner, self.checkpoints)

    async def close(self) -> None:
        """The state where another runtime follows, episodes, archive. A full store is waited
        for.
        """
        await self.episodes.close()
        while True:
            try:
                await self._store_all()
                break
            except StoreFull as full:
                self.session.status.begin(Phase.SAVING, "waiting for room in the object store")
                log.warning("%s", full)
        self.journal.close()

    async def _store_all(self) -> None:
        """On a machine that is taken away the journal first."""
        agent = self.session.agent
        # no other runtime follows, which would train what waits
        is_over = agent.stop_reason is not StopReason.SUSPEND
        interval_s = self.session.assignment.config.journal_interval_s
        async with until_one_fails(
            [self.archive.replica.keep_fresh(interval_s, at_once=agent.preempted)]
        ):
            if not is_over:
                await self.checkpoints.save_state(self.episodes.batches.policy_version)
            await self.checkpoints.settle()
            await self.reporter.flush()
        await self.archive.publish(everything=is_over, on_progress=agent.status.advance)


async def work(agent: Agent, batches: Batches, learner: Learner, checkpoints: Checkpoints) -> None:
    """Train each batch as it fills and make each checkpoint that is ordered, one at a time, until
    asked to stop.
    """
    batch = asyncio.create_task(batches.next_batch())
    order = asyncio.create_task(agent.checkpoint_orders.get())
    stop = asyncio.create_task(agent.stop_requested.wait())
    try:
        while not stop.done():
            # A session whose max_steps is reached gets no batch any more; it still takes orders.
            over = batch.done() and batch.result() is None
            await asyncio.wait(
                {order, stop} if over else {batch, order, stop}, return_when=asyncio.FIRST_COMPLETED
            )
            # a full batch is in the journal, whoever trains it
            is_ending = agent.stop_requested.is_set()
            if batch.done() and not over and not is_ending and (full := batch.result()):
                with batches.stepping():
                    await learner.train(full)
                batch = asyncio.create_task(batches.next_batch())
            elif order.done() and not agent.preempted.is_set():
                await fulfil(agent, order.result(), batches, learner, checkpoints)
                order = asyncio.create_task(agent.checkpoint_orders.get())
            agent.status.begin(Phase.WAITING, PHASE_WAITING)
    finally:
        for task in (batch, order, stop):
            task.cancel()


async def fulfil(
    agent: Agent,
    order: CheckpointOrder,
    batches: Batches,
    learner: Learner,
    checkpoints: Checkpoints,
) -> None:
    """A model is exported after every full group has been trained."""
    is_state = order.kind == CheckpointKind.STATE
    make = checkpoints.save_state if is_state else checkpoints.export_model

    async def made() -> None:
        try:
            await make(batches.policy_version, order.checkpoint_id)
        except FAILS as fault:
            await checkpoint_give_up(agent, order.checkpoint_id, fault)
            if isinstance(fault, OutOfMemory):  # its ranks were ended
                await learner.trainer_again(batches.policy_version)

    try:
        if is_state:
            await made()
            return
        with batches.stepping():
            while (batch := await batches.flush_batch()) is not None:
                await learner.train(batch)
                if agent.preempted.is_set():
                    return  # the next runtime is given the order
            await made()
    except (
        StoreUnavailable
    ) as fault:  # the record shows it already; heartbeats will bring the order again
        log.warning("checkpoint %s waits for the store: %s", order.checkpoint_id, fault)
