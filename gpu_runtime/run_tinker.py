"""The life of a runtime that a Tinker client drives: no episodes and no batches, but operations of models, and samples.

registered (start.py) -> journal -> engine and trainer -> the models of the journal -> gateway -> the end asked for
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tinkerscript.wire.checkpoints import CheckpointKind
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.runtime import (
    PHASE_TINKER,
    Assignment,
    ResumePoint,
    RuntimeStage,
    StopReason,
)
from tinkerscript.wire.tinker.messages import (
    ModelSource,
    NamedCheckpoint,
    NamedCheckpointOpen,
    NamedState,
    NamedStateFind,
)
from tinkerscript.wire.training.model_refusals import folder_refusal

from .config import RuntimeConfig
from .control_plane.address import address_advertise
from .control_plane.agent import Agent
from .engine.tensor_parallel import engine_devices_plan
from .engine.vllm_sampler import VllmSampler
from .episodes.journal_executor import JournalExecutor
from .errors import ControlPlaneRefused, EngineDead, ModelUnsupported, RuntimeFault, TrainerFailed
from .gateway.app import app_of, serve
from .gateway.tinker.data import UserMistake
from .gateway.tinker.dialects import DialectRoutes
from .gateway.tinker.ledger import Ledger
from .gateway.tinker.routes import Samplers, TinkerRoutes
from .gateway.tinker.sampling import Samples
from .gateway.tinker.work import ModelWork
from .gateway.tinker.work_meter import WorkMeter
from .health.deadlines import Phase
from .journal.journal import Journal
from .model_interfaces import ModelTrainer
from .object_store.uploads import ObjectStore
from .placement import both_loaded, devices_verify, gpus_visible, placement_choose
from .rehearsal import rehearse_models
from .rendering.renderer import Renderer
from .run import agent_lost, fault_found, open_journal, template_verify, tokenizer_load, until_one_fails
from .sampler_interfaces import SamplerEngine
from .training.models.process import ModelTrainerProcess
from .weights.handover_folder import handover_make

log = logging.getLogger(__name__)
OPEN_S = 300.0  # how long the control plane may be away when a checkpoint gets its name
LAST_WORDS_S = 5.0  # and when a runtime that ends tells of its last work


class NamedStore:
    """tinker.checkpoint_store.CheckpointStore over the object store. ``volume`` keeps what was fetched or stored."""

    def __init__(self, agent: Agent, store: ObjectStore, volume: Path) -> None:
        self._agent, self._store, self._volume = agent, store, volume
        self._fetching: dict[str, asyncio.Lock] = {}

    async def store(self, wanted: NamedCheckpointOpen, folder: Path, seq_id: int) -> int:
        """Publish ``folder`` under its name; its bytes. Raises UserMistake, StoreUnavailable."""
        try:
            opened = await self._agent.call("/v1/runtime/named-checkpoints", wanted, NamedCheckpoint, deadline_s=OPEN_S)
        except ControlPlaneRefused as refused:
            raise UserMistake(f"the checkpoint {wanted.name!r} was refused: {refused}") from refused
        if opened.refusal or opened.checkpoint_id is None:
            raise UserMistake(opened.refusal)
        if not opened.is_stored:
            kind = CheckpointKind.STATE if wanted.segment == "weights" else CheckpointKind.MODEL
            await self._store.checkpoint_upload(
                folder, kind, seq_id, opened.checkpoint_id, on_progress=self._agent.status.advance
            )
        files = await asyncio.to_thread(lambda: [path for path in folder.rglob("*") if path.is_file()])
        return sum(path.stat().st_size for path in files)

    async def find(self, model_id: str, path: str, *, optimizer: bool) -> ModelSource:
        """A saved state by its path. Raises UserMistake."""
        wanted = NamedStateFind(model_id=model_id, path=path)
        try:
            found = await self._agent.call("/v1/runtime/named-states", wanted, NamedState, deadline_s=OPEN_S)
        except ControlPlaneRefused as refused:
            raise UserMistake(f"{path} was refused: {refused}") from refused
        if found.checkpoint_id is None:
            raise UserMistake(found.refusal)
        return ModelSource(path=path, checkpoint_id=found.checkpoint_id, files=found.files, optimizer=optimizer)

    async def fetch(self, source: ModelSource) -> Path:
        """The folder of a stored checkpoint. Raises StoreUnavailable, after minutes of tries, DiskFull."""
        folder = self._volume / "checkpoints" / source.checkpoint_id
        lock = self._fetching.setdefault(source.checkpoint_id, asyncio.Lock())
        async with lock:
            if folder.exists():
                return folder
            point = ResumePoint(checkpoint_id=source.checkpoint_id, step=0, files=source.files)
            await self._store.checkpoint_fetch(point, folder, on_progress=self._agent.status.advance)
        return folder


async def run_tinker(agent: Agent, assignment: Assignment, config: RuntimeConfig) -> None:
    """What follows the registration (start.py), until the end that was asked for. Raises RuntimeFault."""
    agent.status.begin(Phase.LOADING, "loading the engine and the trainer")
    async with until_one_fails([agent_lost(agent)]):
        store = ObjectStore(agent)
        journal = await open_journal(assignment, store, config.runtime_dir)
        devices_verify(config.gpus)
        async with open_sampler_and_trainer(assignment) as (engine, trainer):
            await serve_models(agent, assignment, store, journal, engine, trainer, config)


async def serve_models(
    agent: Agent, assignment: Assignment, store: ObjectStore, journal: Journal, engine: SamplerEngine,
    trainer: ModelTrainer, config: RuntimeConfig,
) -> None:  # fmt: skip
    """From loaded parts to the end: models as the journal has them, the gateway, the operations that come."""
    disk, faults = JournalExecutor(), asyncio.Queue[RuntimeFault]()
    session_id, named = assignment.session_id, NamedStore(agent, store, config.runtime_dir)
    trainer.on_progress = agent.status.advance
    samplers = Samplers(journal.models, disk, named, trainer.export_state)
    work = ModelWork(trainer, named, config.runtime_dir / "models", session_id=session_id, sampler_put=samplers.put)
    ledger = Ledger(journal.models, disk, work)
    samples = Samples(engine, samplers.find, session_id=session_id, on_fault=faults.put_nowait)
    routes = TinkerRoutes(ledger, samples, samplers, session_id=session_id, relay_key=assignment.relay_key)
    dialects = DialectRoutes(
        engine, samplers.find, lambda: renderer_load(assignment.base_model_path, assignment.config), assignment.config,
        relay_key=assignment.relay_key, on_fault=faults.put_nowait,
    )  # fmt: skip
    meter = WorkMeter()
    ledger.on_done, ledger.on_again = meter.operation_done, meter.measured
    samples.on_done, dialects.on_done = meter.sampled, meter.generated
    served = app_of([*routes.routes(), *dialects.routes()])
    agent.status.begin(Phase.RESTORING, "loading the models of this session")
    await ledger.restore()
    async with serve(served, host=config.listen_host, port=config.listen_port) as listening:
        agent.status.begin(Phase.WAITING, PHASE_TINKER)
        address = address_advertise(config, listening)
        agent.status.update(state=RuntimeStage.READY, address=address, policy_version=ledger.steps_done)
        background = [
            ledger.run(), keep_status(agent, ledger, samples, dialects), watch(engine, trainer), fault_found(faults),
            meter.run(agent),
        ]  # fmt: skip
        async with until_one_fails(background):
            await agent.stop_requested.wait()
        agent.status.begin(Phase.SAVING, "saving")
        agent.status.update(state=RuntimeStage.STOPPING, policy_version=ledger.steps_done)
    await samples.close()
    if agent.stop_reason is StopReason.SUSPEND:
        await ledger.save_all()
    await meter.tell(agent, deadline_s=LAST_WORDS_S)
    disk.close()
    journal.close()


@asynccontextmanager
async def open_sampler_and_trainer(assignment: Assignment) -> AsyncIterator[tuple[SamplerEngine, ModelTrainer]]:
    """Both load (placement.py says in which order), and agree; both end with the block, whatever ends it."""
    model, config = assignment.base_model_path, assignment.config
    if refusal := folder_refusal(Path(model), config):
        raise ModelUnsupported(refusal)
    placement = placement_choose(config, gpus_visible())
    devices = await asyncio.to_thread(engine_devices_plan, Path(model), config, placement, most=1)
    trainer = ModelTrainerProcess(model, config, placement.device, gpus=placement.trainer_gpus)

    async def start() -> VllmSampler:
        return await VllmSampler.start(
            model,
            config,
            placement.device,
            gpus=placement.engines()[0],
            shares_device=placement.shared,
            memory_share=devices.memory_share,
        )

    try:
        async with both_loaded(start, trainer.ready, shared=placement.shared) as engine:
            with handover_make(f"{assignment.session_id}-rehearsal") as folder:
                await rehearse_models(engine, trainer, Path(model), folder)
            yield engine, trainer
    finally:
        await trainer.close()


def renderer_load(model: str, config: SessionConfig) -> Renderer:
    """How the base model's conversations are written. Raises OSError, ModelUnsupported."""
    renderer = Renderer(tokenizer_load(model), config=config)
    template_verify(renderer, model)
    return renderer


async def keep_status(agent: Agent, ledger: Ledger, samples: Samples, dialects: DialectRoutes) -> None:
    """What the heartbeats say; waiting and sampling are progress as long as this loop turns."""
    while True:
        phase, text = Phase.WAITING, PHASE_TINKER
        if not ledger.is_idle:
            phase, text = Phase.TRAINING, "training for a Tinker client"
        elif not samples.is_idle:
            text = "sampling for a Tinker client"
        if agent.status.phase != text:
            agent.status.begin(phase, text)
        elif phase is Phase.WAITING:
            agent.status.advance()
        active_at = max(ledger.last_activity_at, samples.last_activity_at, dialects.last_activity_at)
        agent.status.update(last_activity_at=active_at, policy_version=ledger.steps_done)
        await asyncio.sleep(0.5)


async def watch(engine: SamplerEngine, trainer: ModelTrainer) -> None:
    """Raise as soon as a process of ours is gone, not when it is next needed."""
    while True:
        if engine.dead:
            raise EngineDead(f"the engine's process {engine.ending}")
        if trainer.dead:
            raise TrainerFailed("the trainer's process ended")
        await asyncio.sleep(0.5)
