"""A runtime's life, in order. Every line is a sentence; how each is done stands in the file that it names.

registered (start.py) -> journal -> engine and trainer -> restore -> gateway -> batches and orders -> the end asked for
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from tinkerscript.wire.runtime import PHASE_WAITING, Assignment, RuntimeStage, StopReason
from tinkerscript.wire.training.model_refusals import head_refusal

from .archive.archive import Archive
from .archive.on_failure import archive_on_failure
from .checkpoint_orders import fulfil
from .config import RuntimeConfig
from .control_plane.address import address_advertise
from .control_plane.agent import Agent
from .control_plane.watchdog import Watchdog
from .engine.replicas import Replicas
from .engine.watched import WatchedEngine
from .episodes.batches import Batches
from .episodes.ledger import Episodes
from .episodes.progress import dropped_report, episode_event_report
from .errors import EngineDead, ModelUnsupported, RuntimeFault, StoreFull, TrainerFailed
from .gateway.app import create_app, serve
from .health.deadlines import Phase
from .interfaces import Engine, Tokenizer, Trainer
from .journal.journal import Journal
from .learner import Learner
from .loading.base_folder import base_fetched
from .loading.both import open_engine_and_trainer
from .object_store.journal_replica import JournalReplica
from .object_store.uploads import ObjectStore
from .placement import devices_verify
from .processes.uncollected import uncollected
from .rendering.renderer import Renderer
from .rendering.template_check import template_report, template_verify
from .steps.comparison import AdmittedCalls, Comparison
from .steps.resumed_state import weights_fetched
from .trajectories.erasure import EpisodeErasure
from .trajectories.reporter import EpisodeReporter
from .trajectories.stored_calls import StoredCalls
from .weights.handover_folder import handover_folder

log = logging.getLogger(__name__)


async def run(agent: Agent, assignment: Assignment, config: RuntimeConfig, watchdog: Watchdog) -> None:
    """What follows the registration (start.py), until the end that was asked for. Raises
    RuntimeFault."""
    agent.status.begin(Phase.LOADING, "loading the engine and the trainer")
    async with until_one_fails([agent_lost(agent)]):
        await load_and_serve(agent, assignment, config, watchdog)


async def load_and_serve(agent: Agent, assignment: Assignment, config: RuntimeConfig, watchdog: Watchdog) -> None:
    """Bring up the parts and serve."""
    store = ObjectStore(agent)
    assignment = await base_fetched(store, assignment, config.runtime_dir, agent.status)
    journal = await open_journal(assignment, store, config.runtime_dir)
    replica = JournalReplica(store, journal, config.runtime_dir)
    archive = Archive(assignment, store, journal, replica, config.runtime_dir)
    async with archive_on_failure(agent, archive):
        devices_verify(config.gpus)
        with handover_folder(config.session_id, assignment.engine_nodes) as handover:
            opened = open_engine_and_trainer(assignment, config.gpus, agent.status.advance)
            fetched = weights_fetched(store, assignment, config.runtime_dir, agent.status.advance)
            reading = tokenizer_reading(assignment.base_model_path)
            async with reading as tokenizer, fetched as weights, opened as (engine, trainer, comparison):
                watched = engine if isinstance(engine, Replicas) else WatchedEngine(engine)
                watchdog.watch(watched)
                await serve_session(
                    agent, assignment, store, journal, archive, watched, trainer, comparison, weights, tokenizer,
                    config, handover,
                )  # fmt: skip


async def serve_session(
    agent: Agent, assignment: Assignment, store: ObjectStore, journal: Journal, archive: Archive, engine: Engine,
    trainer: Trainer, comparison: Comparison, weights: Awaitable[Path] | None, reading: Awaitable[Tokenizer],
    config: RuntimeConfig, handover: Path,
) -> None:  # fmt: skip
    """From loaded parts to the end: restore, open the gateway, train what comes."""
    episodes = Episodes(journal, assignment, on_event=partial(episode_event_report, agent.report))
    batches = episodes.batches
    agent.on_event = episodes.notices.add
    batches.on_dropped = partial(dropped_report, agent.report)
    learner = Learner(assignment, config.runtime_dir, handover, agent, store, batches, engine, trainer, archive)
    learner.comparison, learner.weights_file = comparison, weights
    stored = StoredCalls(agent, store, journal)
    stored.states = (0, assignment.resume_from.step if assignment.resume_from else 0)
    batches.calls.recall, learner.on_committed = stored.recall, stored.prune
    faults: asyncio.Queue[RuntimeFault] = asyncio.Queue()
    version = await learner.restore()
    tokenizer = await reading
    renderer = Renderer(tokenizer, config=assignment.config)
    template_verify(renderer, assignment.base_model_path)
    template_report(agent.report, renderer)
    reporter = EpisodeReporter(assignment.config, agent, store, journal, batches, tokenizer, config.runtime_dir)
    episodes.eraser = EpisodeErasure(episodes, archive, reporter, stored, config.runtime_dir).erase
    app = create_app(episodes, AdmittedCalls(engine, comparison), renderer, assignment, on_fault=faults.put_nowait)
    await episodes.start()
    async with (
        reporter.flushed_on_failure(),
        serve(app, host=config.listen_host, port=config.listen_port) as listening,
    ):
        address = address_advertise(config, listening)
        agent.status.begin(Phase.WAITING, PHASE_WAITING)
        ledger = await episodes.accounting()  # with the first beat: none shows a ledger without episodes
        agent.status.update(state=RuntimeStage.READY, address=address, policy_version=version, accounting=ledger)
        comparison.calls_begin()
        background = [
            keep_status(agent, episodes, batches, comparison),
            archive.replica.keep_fresh(assignment.config.journal_interval_s, at_once=agent.preempted),
            reporter.keep_rows(),
            reporter.keep_documents(),
            watch(engine, trainer, learner),
            comparison.passed(),
            fault_found(faults),
        ]
        async with until_one_fails(background):
            await work(agent, batches, learner)
        agent.status.begin(Phase.SAVING, "saving")
        agent.status.update(state=RuntimeStage.STOPPING)
    await episodes.close()
    await store_what_stays(agent, batches, learner, archive, reporter, assignment.config.journal_interval_s)
    journal.close()


async def store_what_stays(
    agent: Agent, batches: Batches, learner: Learner, archive: Archive, reporter: EpisodeReporter, interval_s: float
) -> None:
    """What outlives the runtime; on a machine that is taken away the journal first. A full store is waited for."""
    while True:
        is_over = agent.stop_reason is not StopReason.SUSPEND  # no other runtime follows, which would train what waits
        try:
            async with until_one_fails([archive.replica.keep_fresh(interval_s, at_once=agent.preempted)]):
                if not is_over:
                    await learner.save_state(batches.policy_version)
                await learner.settle()
                await reporter.flush()
            await archive.publish(everything=is_over, on_progress=agent.status.advance)
            return
        except StoreFull as full:
            agent.status.begin(Phase.SAVING, "waiting for room in the object store")
            log.warning("%s", full)


async def work(agent: Agent, batches: Batches, learner: Learner) -> None:
    """Train each batch as it fills and make each checkpoint that is ordered, one at a time, until asked to stop."""
    batch = asyncio.create_task(batches.next_batch())
    order = asyncio.create_task(agent.checkpoint_orders.get())
    stop = asyncio.create_task(agent.stop_requested.wait())
    try:
        while not stop.done():
            # A session whose max_steps is reached gets no batch any more; it still takes orders.
            over = batch.done() and batch.result() is None
            await asyncio.wait({order, stop} if over else {batch, order, stop}, return_when=asyncio.FIRST_COMPLETED)
            is_ending = agent.stop_requested.is_set()  # a full batch is in the journal, whoever trains it
            if batch.done() and not over and not is_ending and (full := batch.result()):
                with batches.stepping():
                    await learner.train(full)
                batch = asyncio.create_task(batches.next_batch())
            elif order.done() and not agent.preempted.is_set():
                await fulfil(agent, order.result(), batches, learner)
                order = asyncio.create_task(agent.checkpoint_orders.get())
            agent.status.begin(Phase.WAITING, PHASE_WAITING)
    finally:
        for task in (batch, order, stop):
            task.cancel()


async def open_journal(assignment: Assignment, store: ObjectStore, volume: Path) -> Journal:
    """This volume's journal, or the last copy of it, or a new one."""
    path = volume / "journal.sqlite3"
    files = assignment.journal_files
    if files and not path.exists():
        await store.journal_fetch(files[0], path, files[1:])
    journal = Journal(path)
    journal.hold()
    return journal


@asynccontextmanager
async def tokenizer_reading(folder: str) -> AsyncIterator["asyncio.Task[Tokenizer]"]:
    """The base model's tokenizer, read beside what the block does. The block's end waits for it."""
    reading = asyncio.create_task(asyncio.to_thread(tokenizer_load, folder))
    try:
        yield reading
    finally:
        await asyncio.gather(reading, return_exceptions=True)


def tokenizer_load(folder: str) -> Tokenizer:
    """The base model's tokenizer. Raises OSError where the folder holds none, ModelUnsupported: too many ids."""
    # The server compared them by the files; here they are as the library loads them, defaults and formats included.
    with uncollected():  # an engine that starts beside it imports the same
        from transformers import AutoConfig

        from .rendering.transformers_tokenizer import TransformersTokenizer  # imports torch

    tokenizer = TransformersTokenizer(folder)
    head = AutoConfig.from_pretrained(folder).get_text_config().vocab_size
    if refusal := head_refusal(head, tokenizer.largest_id):
        raise ModelUnsupported(refusal)
    tokenizer.size = max(tokenizer.size, head)  # the engine samples any id of the head: it may come back
    return tokenizer


@asynccontextmanager
async def until_one_fails(background: list[Coroutine[None, None, None]]) -> AsyncIterator[None]:
    """Run ``background`` beside the block. The first of them to raise ends the block with its error."""
    tasks = [asyncio.create_task(job) for job in background]
    block = asyncio.current_task()
    assert block is not None, "a coroutine runs in a task"
    failed: list[BaseException] = []

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not failed:
            failed.append(error)
            block.cancel()

    for task in tasks:
        task.add_done_callback(ended)
    try:
        yield
    except asyncio.CancelledError:
        if failed:
            raise failed[0] from None
        raise
    finally:
        for task in tasks:
            task.remove_done_callback(ended)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def keep_status(agent: Agent, episodes: Episodes, batches: Batches, comparison: Comparison) -> None:
    """What the heartbeats say of the episodes; waiting for them is progress as long as this loop turns."""
    while True:
        agent.status.update(accounting=await episodes.accounting(), last_activity_at=episodes.open.last_activity_at)
        if agent.status.phase.startswith(PHASE_WAITING):
            beside = "" if comparison.is_over else "; the trainer is loading"
            agent.status.begin(Phase.WAITING, f"{batches.phase()}{beside}")
        await asyncio.sleep(1.0)


async def watch(engine: Engine, trainer: Trainer, learner: Learner) -> None:
    """Raise as soon as a process of ours is gone, not when it is next needed.

    A rank that ends in the middle of a step is the learner's to judge: it may be out of memory.
    """
    while True:
        if engine.dead:
            raise EngineDead(f"the engine's process {engine.ending}")
        if trainer.dead and not learner.uses_trainer:
            await trainer.ready()  # raises what became of it
            raise TrainerFailed("a trainer rank ended")
        await asyncio.sleep(0.5)


async def agent_lost(agent: Agent) -> None:
    """Raise the fault with which the agent lost the control plane or the lease."""
    raise await agent.wait_lost()


async def fault_found(faults: asyncio.Queue[RuntimeFault]) -> None:
    """Raise what a call found out: the engine is dead or has gone silent."""
    raise await faults.get()
