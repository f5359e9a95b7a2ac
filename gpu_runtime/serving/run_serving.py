"""The life of a runtime that serves a model: an engine and no trainer, and nothing that an end could lose.

registered (start.py) -> the checkpoint's files -> engine -> gateway -> the end asked for
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gpu_runtime.config import RuntimeConfig
from gpu_runtime.control_plane.address import address_advertise
from gpu_runtime.control_plane.agent import Agent
from gpu_runtime.control_plane.watchdog import Watchdog
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.engine.watched import WatchedEngine
from gpu_runtime.errors import EngineDead, ModelUnsupported, RuntimeFault
from gpu_runtime.gateway.app import serve
from gpu_runtime.gateway.serving import ServedModel
from gpu_runtime.health.deadlines import Phase
from gpu_runtime.interfaces import Engine
from gpu_runtime.loading.base_folder import base_fetched
from gpu_runtime.object_store.uploads import ObjectStore
from gpu_runtime.placement import devices_verify, gpus_visible
from gpu_runtime.rendering.renderer import Renderer
from gpu_runtime.rendering.template_check import template_verify
from gpu_runtime.run import agent_lost, fault_found, tokenizer_load, until_one_fails
from tinkerscript.wire.runtime import PHASE_SERVING, Assignment, RuntimeStage
from tinkerscript.wire.training.model_refusals import folder_refusal


async def run_serving(agent: Agent, assignment: Assignment, config: RuntimeConfig, watchdog: Watchdog) -> None:
    """What follows the registration (start.py), until the end that was asked for. Raises RuntimeFault."""
    async with until_one_fails([agent_lost(agent)]):
        assignment = await base_fetched(ObjectStore(agent), assignment, config.runtime_dir, agent.status)
        agent.status.begin(Phase.LOADING, "loading the engine")
        devices_verify(config.gpus)
        async with open_engine(assignment) as engine:
            watched = WatchedEngine(engine)
            watchdog.watch(watched)
            await serve_model(agent, assignment, watched, config)


@asynccontextmanager
async def open_engine(assignment: Assignment) -> AsyncIterator[Engine]:
    """The engine, on the first GPU if there is one; its processes end with the block. Raises ModelUnsupported."""
    folder = assignment.base_model_path
    if refusal := folder_refusal(Path(folder), assignment.config):
        raise ModelUnsupported(refusal)
    gpus = gpus_visible()[:1]
    engine = await VllmEngine.start(folder, assignment.config, "cuda" if gpus else "cpu", gpus=gpus)
    try:
        yield engine
    finally:
        await engine.close()


async def serve_model(agent: Agent, assignment: Assignment, engine: Engine, config: RuntimeConfig) -> None:
    """From a loaded engine to the end: the gateway, and heartbeats that say when the last call was."""
    folder = assignment.base_model_path
    version = assignment.serves.step if assignment.serves else 0
    engine.version = version
    renderer = Renderer(tokenizer_load(folder), config=assignment.config)
    template_verify(renderer, folder)
    faults: asyncio.Queue[RuntimeFault] = asyncio.Queue()
    model = ServedModel(engine, renderer, assignment, version=version, on_fault=faults.put_nowait)
    async with serve(model.app(), host=config.listen_host, port=config.listen_port) as listening:
        agent.status.begin(Phase.WAITING, PHASE_SERVING)
        address = address_advertise(config, listening)
        agent.status.update(state=RuntimeStage.READY, address=address, policy_version=version)
        async with until_one_fails([keep_status(agent, model), watch(engine), fault_found(faults)]):
            await agent.stop_requested.wait()
        agent.status.begin(Phase.SAVING, "ending")
        agent.status.update(state=RuntimeStage.STOPPING)


async def keep_status(agent: Agent, model: ServedModel) -> None:
    """What the heartbeats say; waiting and sampling are progress as long as this loop turns."""
    while True:
        agent.status.advance()
        agent.status.update(last_activity_at=model.last_activity_at)
        await asyncio.sleep(0.5)


async def watch(engine: Engine) -> None:
    """Raise as soon as the engine's process is gone, not when it is next needed."""
    while True:
        if engine.dead:
            raise EngineDead(f"the engine's process {engine.ending}")
        await asyncio.sleep(0.5)
