"""The first minute of a session: what it loads, compared, and ended together with the block that
uses it.

may_load                    refuses a machine or a model that does not fit, before any start
open_engine_and_trainer     side by side; the engine serves while the trainer loads and is compared
                            (comparison.py)
open_sampler_and_trainer    side by side, and compared before either is used
open_engine                 an engine alone
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from gpu_runtime.cluster.group import Group, group_opened
from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.engine.replicas import engines_start
from gpu_runtime.engine.tensor_parallel import EngineDevices, engine_devices_plan
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.errors import EngineDead, ModelUnsupported
from gpu_runtime.interfaces import Engine, EngineProcess, SamplerEngine
from gpu_runtime.model_interfaces import ModelTrainer, Trainer
from gpu_runtime.placement import (
    Placement,
    devices_verify,
    engine_needs_gpu,
    gpus_given,
    gpus_visible,
    placement_choose,
)
from gpu_runtime.session import Session
from gpu_runtime.steps.comparison import Comparison
from gpu_runtime.steps.resumed_state import serves_from_state
from gpu_runtime.training.models.process import ModelTrainerProcess
from gpu_runtime.training.ranks import TrainerRanks
from gpu_runtime.weights.handover_folder import handover_make
from tinkerscript.wire.training.model_refusals import engine_refusal, folder_refusal
from tinkerscript.wire.training.models.mixtures import mixture_refusal

from .node_engine import NodeEngine
from .rehearsal import rehearse, rehearse_models

EngineT = TypeVar("EngineT", bound=EngineProcess)


def may_load(session: Session) -> None:
    """Raise PlacementImpossible where this machine lacks what the session was given,
    ModelUnsupported for its model: before anything is started.
    """
    devices_verify(session.config.gpus)
    folder, config = Path(session.assignment.base_model_path), session.assignment.config
    refusal = folder_refusal(folder, config) or mixture_refusal(folder, config)
    if refusal := refusal or engine_refusal(folder, on_gpu=engine_needs_gpu()):
        raise ModelUnsupported(refusal)


@asynccontextmanager
async def open_engine_and_trainer(
    session: Session,
) -> AsyncIterator[tuple[Engine, Trainer, Comparison]]:
    """An engine that has loaded, its trainer, and whether they agree; both end with the block,
    whatever ends it.
    """
    model, config = session.assignment.base_model_path, session.assignment.config
    placement = placement_choose(config, gpus_given(config, session.config.gpus))
    devices = await asyncio.to_thread(engine_devices_plan, Path(model), config, placement)
    grouped = group_opened(config.nodes, len(placement.gpus), on_notice=session.agent.preempt)
    async with grouped as group, _opened(session, placement, devices, group) as opened:
        yield opened


@asynccontextmanager
async def _opened(
    session: Session, placement: Placement, devices: EngineDevices, group: Group | None
) -> AsyncIterator[tuple[Engine, Trainer, Comparison]]:
    """Of ``open_engine_and_trainer``, on the machines of ``group``: ranks and an engine on each."""
    assignment, on_progress = session.assignment, session.status.advance
    model, config = assignment.base_model_path, assignment.config
    others = [] if group is None else group.nodes[1:]
    trainer = TrainerRanks(
        model,
        config,
        placement.device,
        gpus=placement.trainer_gpus,
        shares_device=placement.shared,
        group=group,
        gpus_elsewhere=[placement.on_other(node.gpus).trainer_gpus for node in others],
        on_progress=on_progress,
    )

    comparison = Comparison(resumes=serves_from_state(assignment) and not placement.shared)

    async def start() -> Engine:
        spec = EngineSpec(
            model,
            config,
            placement.device,
            shares_device=placement.shared,
            tensor_parallel=devices.tensor_parallel,
            memory_share=devices.memory_share,
            awaits_weights=comparison.resumes,
        )
        loads: list[Any] = [
            partial(VllmEngine.start, replace(spec, gpus=gpus))
            for gpus in placement.engines(devices.tensor_parallel)
        ]
        if group is not None:
            for number, node in enumerate(others, start=1):
                there = placement.on_other(node.gpus).engines(devices.tensor_parallel)
                start_there = partial(NodeEngine.start, group, number)
                loads += [partial(start_there, replace(spec, gpus=gpus)) for gpus in there]
        return await engines_start(loads, on_progress=on_progress)

    async def compare(engine: Engine, loading: asyncio.Task[None]) -> None:
        await loading
        await comparison.resumed()
        with handover_make(f"{assignment.session_id}-rehearsal", config.nodes) as handover:
            which = "the weights of its state" if comparison.resumes else "the base weights"
            await rehearse(engine, trainer, Path(model), handover, which)

    try:
        async with engine_loaded(start, trainer.ready, shared=placement.shared) as (
            engine,
            loading,
        ):
            comparison.begin(compare(engine, loading))
            try:
                # the trainer waits for the engine there, which sleeps while it is compared
                if placement.shared:
                    await comparison.passed()
                yield engine, trainer, comparison
            finally:
                await comparison.end()
    finally:
        await trainer.close()


@asynccontextmanager
async def open_sampler_and_trainer(
    session: Session,
) -> AsyncIterator[tuple[SamplerEngine, ModelTrainer]]:
    """Both have loaded, and agree; both end with the block, whatever ends it."""
    model, config = session.assignment.base_model_path, session.assignment.config
    placement = placement_choose(config, gpus_visible())
    devices = await asyncio.to_thread(engine_devices_plan, Path(model), config, placement, most=1)
    trainer = ModelTrainerProcess(
        model,
        config,
        placement.device,
        gpus=placement.trainer_gpus,
        on_progress=session.status.advance,
    )

    spec = EngineSpec(
        model,
        config,
        placement.device,
        gpus=placement.engines()[0],
        adapters=True,
        shares_device=placement.shared,
        memory_share=devices.memory_share,
    )
    start = partial(VllmEngine.start, spec)
    try:
        async with engine_loaded(start, trainer.ready, shared=placement.shared) as (
            engine,
            loading,
        ):
            await loading
            with handover_make(f"{session.assignment.session_id}-rehearsal") as folder:
                await rehearse_models(engine, trainer, Path(model), folder)
            yield engine, trainer
    finally:
        await trainer.close()


@asynccontextmanager
async def open_engine(session: Session) -> AsyncIterator[Engine]:
    """An engine alone, on the first GPU if there is one; its processes end with the block. Raises
    ModelUnsupported.
    """
    gpus, model = gpus_visible()[:1], session.assignment.base_model_path
    device, config = "cuda" if gpus else "cpu", session.assignment.config
    engine = await VllmEngine.start(EngineSpec(model, config, device, gpus=tuple(gpus)))
    try:
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def engine_loaded(
    start: Callable[[], Coroutine[Any, Any, EngineT]],
    ready: Callable[[], Coroutine[Any, Any, None]],
    *,
    shared: bool,
) -> AsyncIterator[tuple[EngineT, "asyncio.Task[None]"]]:
    """The engine of ``start``, which is closed after the block, and the trainer's loading, which
    ``ready`` tells of.

    They load side by side, but one after the other on a ``shared`` device, whose free memory vLLM
    measures. What the trainer raises before the engine has loaded is raised at once; an engine
    whose process ended over the model names no reason, so that the trainer's is waited for.
    """

    async def ready_after(engine: asyncio.Task[EngineT]) -> None:
        await asyncio.wait({engine})
        await ready()

    starting = asyncio.create_task(start())
    loading = asyncio.create_task(ready_after(starting) if shared else ready())
    try:
        await asyncio.wait({starting, loading}, return_when=asyncio.FIRST_COMPLETED)
        if loading.done():
            loading.result()
        await asyncio.wait({starting})
        if isinstance(starting.exception(), EngineDead):
            await loading
        yield starting.result(), loading
    finally:
        starting.cancel()
        loading.cancel()
        await asyncio.gather(starting, loading, return_exceptions=True)
        if not starting.cancelled() and starting.exception() is None:
            await starting.result().close()
