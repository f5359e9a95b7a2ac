"""A runtime's life, in order. Every line is a sentence; how each is done stands in the file that it names.

register -> journal -> engine and trainer -> restore -> gateway -> batches and orders -> the end that was asked for
"""

import asyncio
import logging
import shutil
import tempfile
import time
import traceback
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from tinkerscript.wire.checkpoints import CheckpointKind
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.runtime import PHASE_WAITING, Assignment, CheckpointOrder

from .agent import Agent
from .archive import Archive
from .config import RuntimeConfig
from .deadlines import Phase
from .engine import VllmEngine
from .errors import EngineDead, PlacementImpossible, RuntimeFault, StoreFull, StoreUnavailable, TrainerFailed
from .gateway.app import create_app, serve
from .gateway.batches import Batches
from .gateway.episodes import Episodes
from .gateway.render import Renderer
from .interfaces import Engine, Trainer
from .journal import Journal
from .last_try import LastTry
from .learner import Learner
from .place import address_advertise, devices_verify
from .placement import gpus_visible, placement_choose
from .replica import JournalReplica
from .training.ranks import TrainerRanks
from .watchdog import Watchdog
from .watched_engine import WatchedEngine
from .weights.store import journal_fetch

log = logging.getLogger(__name__)


async def run(config: RuntimeConfig, *, hard_exit: bool = False) -> None:
    """Serve one session until the control plane asks for the end. Raises RuntimeFault when it cannot go on.

    ``hard_exit``: this process is nothing but the runtime, and is ended even if its main loop cannot end it.
    """
    async with Agent(config) as agent:
        assignment = await agent.register()
        agent.status.begin(Phase.LOADING, "loading the engine and the trainer")
        with Watchdog(agent, config.runtime_dir / "stacks", hard_exit=hard_exit) as watchdog:
            try:
                async with until_one_fails([agent_lost(agent)]):
                    await load_and_serve(agent, assignment, config, watchdog)
            except PlacementImpossible as fault:
                log.error("%s: %s", fault.code, fault)
                await agent.fail(fault.code, str(fault), fault.hint)  # no restart would change it
            except Exception as error:
                report_end(agent, error)
                raise


async def load_and_serve(agent: Agent, assignment: Assignment, config: RuntimeConfig, watchdog: Watchdog) -> None:
    """Bring up the parts and serve."""
    journal = await open_journal(assignment, config.runtime_dir)
    replica = JournalReplica(agent, journal, config.runtime_dir)
    archive = Archive(assignment, agent, journal, replica, config.runtime_dir)
    async with LastTry(agent, archive):
        devices_verify(config.gpus)
        with handover_folder(config.session_id) as handover:
            async with open_engine_and_trainer(assignment) as (engine, trainer):
                watched = WatchedEngine(engine)
                watchdog.watch(watched)
                await serve_session(agent, assignment, journal, archive, watched, trainer, config, handover)


def report_end(agent: Agent, error: Exception) -> None:
    """Put on the session's record why this runtime ends; what is lost with the lease is nobody's to write."""
    code = error.code if isinstance(error, RuntimeFault) else "runtime_fault"
    hint = error.hint if isinstance(error, RuntimeFault) else ""
    trace = "" if isinstance(error, RuntimeFault) else "".join(traceback.format_exception(error))[-8000:]
    data = {"name": "runtime_fault", "code": code, "cause": str(error)[:4000], "hint": hint, "trace": trace}
    agent.report(EventKind.EVENT, data, key=f"runtime_fault {time.time_ns()}")


async def serve_session(
    agent: Agent, assignment: Assignment, journal: Journal, archive: Archive, engine: Engine, trainer: Trainer,
    config: RuntimeConfig, handover: Path,
) -> None:  # fmt: skip
    """From loaded parts to the end: restore, open the gateway, train what comes."""
    episodes = Episodes(journal, assignment)
    batches = episodes.batches
    learner = Learner(assignment, config.runtime_dir, handover, agent, batches, engine, trainer, archive)
    version = await learner.restore()
    faults: asyncio.Queue[RuntimeFault] = asyncio.Queue()
    renderer = Renderer(assignment.base_model_path)
    app = create_app(episodes, engine, renderer, assignment, on_fault=faults.put_nowait)
    await episodes.start()
    async with serve(app, host=config.listen_host, port=config.listen_port) as listening:
        address = address_advertise(config, listening)
        agent.status.begin(Phase.WAITING, PHASE_WAITING)
        agent.status.update(state="ready", address=address, policy_version=version)
        background = [
            keep_status(agent, episodes),
            archive.replica.keep_fresh(assignment.config.journal_interval_s),
            watch(engine, trainer, learner),
            fault_found(faults),
        ]
        async with until_one_fails(background):
            await work(agent, batches, learner)
        agent.status.begin(Phase.SAVING, "saving")
        agent.status.update(state="stopping")
    await episodes.close()
    await store_what_stays(agent, batches, learner, archive)
    journal.close()


async def store_what_stays(agent: Agent, batches: Batches, learner: Learner, archive: Archive) -> None:
    """What outlives the runtime. A store that is full is waited for, for as long as the control plane lets us."""
    while True:
        is_over = agent.stop_reason != "suspend"  # no other runtime follows, which would train what waits
        try:
            if not is_over:
                await learner.save_state(batches.policy_version)
            await learner.settle()
            await archive.publish(everything=is_over, on_progress=agent.status.advance)
            return
        except StoreFull as full:
            agent.status.begin(Phase.SAVING, "waiting for room in the object store")
            log.warning("%s", full)


async def work(agent: Agent, batches: Batches, learner: Learner) -> None:
    """Train each batch as it fills and make each checkpoint that is ordered, one at a time, until told to stop."""
    batch = asyncio.create_task(batches.next_batch())
    order = asyncio.create_task(agent.checkpoint_orders.get())
    stop = asyncio.create_task(agent.stop_requested.wait())
    try:
        while not stop.done():
            # A session whose max_steps is reached is answered no batch any more; it still takes orders.
            over = batch.done() and batch.result() is None
            await asyncio.wait({order, stop} if over else {batch, order, stop}, return_when=asyncio.FIRST_COMPLETED)
            if batch.done() and not over and (full := batch.result()):
                with batches.stepping():
                    await learner.train(full)
                batch = asyncio.create_task(batches.next_batch())
            elif order.done():
                await fulfil(order.result(), batches, learner)
                order = asyncio.create_task(agent.checkpoint_orders.get())
            agent.status.begin(Phase.WAITING, PHASE_WAITING)
    finally:
        for task in (batch, order, stop):
            task.cancel()


async def fulfil(order: CheckpointOrder, batches: Batches, learner: Learner) -> None:
    """A model is exported after every full group has been trained; a store that is away only delays the order."""
    try:
        if order.kind == CheckpointKind.STATE:
            await learner.save_state(batches.policy_version, order.checkpoint_id)
            return
        with batches.stepping():
            while (batch := await batches.flush_batch()) is not None:
                await learner.train(batch)
            await learner.export_model(batches.policy_version, order.checkpoint_id)
    except StoreUnavailable as fault:  # the record says so already; heartbeats will bring the order again
        log.warning("checkpoint %s waits for the store: %s", order.checkpoint_id, fault)


async def open_journal(assignment: Assignment, volume: Path) -> Journal:
    """This volume's journal, or the last copy of it, or a new one."""
    path = volume / "journal.sqlite3"
    if not path.exists() and assignment.journal is not None:
        await journal_fetch(assignment.journal, path)
    return Journal(path)


@asynccontextmanager
async def open_engine_and_trainer(assignment: Assignment) -> AsyncIterator[tuple[Engine, Trainer]]:
    """Both load at the same time; both end with the block, whatever ends it."""
    place = placement_choose(assignment.config, gpus_visible())
    model, config = assignment.base_model_path, assignment.config
    trainer = TrainerRanks(model, config, place.device, gpus=place.trainer_gpus, shares_device=place.shared)
    try:
        engine = await VllmEngine.start(model, config, place.device, shares_device=place.shared, gpus=place.engine_gpus)
        try:
            await trainer.ready()
            yield engine, trainer
        finally:
            await engine.close()
    finally:
        await trainer.close()


@contextmanager
def handover_folder(session_id: str) -> Iterator[Path]:
    """A folder in memory where the machine has one. What a killed runtime of the session left there is removed."""
    shared = Path("/dev/shm")
    parent = shared if shared.is_dir() else Path(tempfile.gettempdir())
    for left in parent.glob(f"tinkerscript-{session_id}-*"):
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"tinkerscript-{session_id}-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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


async def keep_status(agent: Agent, episodes: Episodes) -> None:
    """What the heartbeats say of the episodes; waiting for them is progress as long as this loop turns."""
    while True:
        agent.status.update(accounting=await episodes.accounting(), last_activity_at=episodes.last_activity_at)
        if agent.status.phase == PHASE_WAITING:
            agent.status.advance()
        await asyncio.sleep(1.0)


async def watch(engine: Engine, trainer: Trainer, learner: Learner) -> None:
    """Raise as soon as a process of ours is gone, not when somebody next needs it.

    A rank that ends in the middle of a step is the learner's to judge: it may be out of memory.
    """
    while True:
        if engine.dead:
            raise EngineDead("the engine's process ended")
        if trainer.dead and not learner.uses_trainer:
            raise TrainerFailed("a trainer rank ended")
        await asyncio.sleep(0.5)


async def agent_lost(agent: Agent) -> None:
    """Raise the fault with which the agent lost the control plane or the lease."""
    raise await agent.wait_lost()


async def fault_found(faults: asyncio.Queue[RuntimeFault]) -> None:
    """Raise what a call found out: the engine is dead or has gone silent."""
    raise await faults.get()
