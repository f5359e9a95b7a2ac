"""Engine and trainer of a session: loaded side by side, compared, and ended together.

The engine serves as soon as it has loaded; steps/comparison.py says what waits for the trainer.

A warm runtime (warm.py) has done this before it had a session, with the default configuration. What is loaded then fits
a session that differs from it only in options that are read after loading; any other loads its own.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gpu_runtime.engine.over_nodes.others import OtherNodes
from gpu_runtime.engine.replicas import engines_start
from gpu_runtime.engine.tensor_parallel import engine_devices_plan
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.errors import ModelUnsupported
from gpu_runtime.interfaces import Engine, Trainer
from gpu_runtime.placement import engine_loaded, gpus_given, placement_choose
from gpu_runtime.rehearsal import rehearse
from gpu_runtime.steps.comparison import Comparison
from gpu_runtime.steps.resumed_state import serves_from_state
from gpu_runtime.training.ranks import TrainerRanks
from gpu_runtime.weights.handover_folder import handover_make
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.events import EventKind
from tinkerscript.wire.runtime import Assignment
from tinkerscript.wire.training.model_refusals import folder_refusal, positions_count

from .engine_nodes import engine_nodes

log = logging.getLogger(__name__)

# Options that neither the engine nor the trainer reads while it loads. All others have to be the loaded ones'.
READ_LATER = frozenset({
    "grpo_n", "tasks_per_batch", "max_steps", "max_staleness", "dynamic_sampling", "group_timeout_s",
    "learning_rate", "warmup_steps", "lr_schedule", "lr_min_ratio", "grad_norm_limit",
    "minibatches", "epochs", "kl_stop",
    "loss", "tis_cap", "tis_level", "tis_mode", "clip_low", "clip_high", "dual_clip", "dro_beta",
    "normalize_advantage", "advantage_baseline", "call_discount", "entropy_coef", "entropy_target",
    "max_tokens", "temperature", "unsupported_sampling", "unsupported_effort", "mask_truncated", "overlong_buffer",
    "model_names", "logprobs_after_step", "micro_batch_tokens", "checkpoint_every_steps", "journal_interval_s",
    "episode_idle_timeout_s", "episode_timeout_s", "idle_suspend_s",
})  # fmt: skip


@dataclass
class Loaded:
    """An engine and a trainer that agree on ``model`` as it is, for a session that is not known yet.

    ``close`` ends both; whoever takes them does it.
    """

    model: str
    config: SessionConfig
    gpus: int
    engine: Engine
    trainer: TrainerRanks
    parts: AsyncExitStack

    async def close(self) -> None:
        """End every process of both."""
        await self.parts.aclose()

    async def take(self, config: SessionConfig) -> None:
        """Become a session's, whose ``config`` fits."""
        self.engine.configure(config)
        await self.trainer.configure(config)

    @property
    def dead(self) -> bool:
        """Whether a process of either has ended."""
        return self.engine.dead or self.trainer.dead


def misfit(loaded: Loaded, model: str, config: SessionConfig, gpus: int) -> str:
    """Why ``loaded`` is not for a session; empty if it is."""
    if loaded.dead:
        return "a process of it has ended"
    if (loaded.model, loaded.gpus) != (model, gpus):
        return f"it has {loaded.model} on {loaded.gpus} GPUs"
    if config.max_context_length > loaded.config.max_context_length:
        return f"max_context_length is {config.max_context_length}, above its {loaded.config.max_context_length}"
    differ = [
        name
        for name in SessionConfig.model_fields
        if name not in READ_LATER | {"max_context_length"} and getattr(config, name) != getattr(loaded.config, name)
    ]
    return f"it has another {', '.join(differ)}" if differ else ""


async def load_before(model: str, gpus: int, name: str) -> Loaded:
    """Engine and trainer of ``model`` with the default configuration. Raises RuntimeFault.

    ``name`` is the runtime's, by which its launcher finds what it left in memory when it was killed. Contexts are as
    long as the model's positions reach where that is less.
    """
    parts, usual = AsyncExitStack(), SessionConfig().max_context_length
    config = SessionConfig(max_context_length=min(usual, positions_count(Path(model)) or usual))
    opened = _both_opened(name, model, config, gpus, lambda: None)
    engine, trainer, comparison = await parts.enter_async_context(opened)
    try:
        await comparison.passed()
    except BaseException:
        await parts.aclose()
        raise
    return Loaded(model, config, gpus, engine, trainer, parts)


def fit_report(report: Callable[[EventKind, dict[str, str], str], None], loaded: Loaded, why: str) -> None:
    """Put on the session's record whether it has what was loaded before it."""
    result = f"not used: {why}" if why else "used"
    data = {"name": "warm_runtime", "engine_and_trainer": result, "model": loaded.model}
    report(EventKind.EVENT, data, f"warm_runtime {time.time_ns()}")


@asynccontextmanager
async def open_engine_and_trainer(
    assignment: Assignment, given: int, on_progress: Callable[[], None], loaded: Loaded | None = None
) -> AsyncIterator[tuple[Engine, Trainer, Comparison]]:
    """An engine that has loaded, its trainer, and whether they agree; both end with the block, whatever ends it.

    On the GPUs ``given`` (placement.py). Taken from ``loaded`` where that fits.
    """
    model, config = assignment.base_model_path, assignment.config
    if loaded is not None:
        if not (why := misfit(loaded, model, config, given)):
            async with loaded.parts:
                await loaded.take(config)
                comparison = Comparison(resumes=serves_from_state(assignment) and not loaded.engine.shares_device)
                if comparison.resumes:
                    comparison.begin(comparison.resumed())
                try:
                    yield loaded.engine, loaded.trainer, comparison
                finally:
                    await comparison.end()
            return
        log.info("what was loaded before the session does not fit it: %s", why)
        await loaded.close()
    nodes, resumes = assignment.engine_nodes, serves_from_state(assignment)
    async with _both_opened(assignment.session_id, model, config, given, on_progress, nodes, resumes) as both:
        yield both


@asynccontextmanager
async def _both_opened(
    name: str,
    model: str,
    config: SessionConfig,
    given: int,
    on_progress: Callable[[], None],
    nodes: int = 1,
    resumes: bool = False,
) -> AsyncIterator[tuple[Engine, TrainerRanks, Comparison]]:
    if refusal := folder_refusal(Path(model), config):
        raise ModelUnsupported(refusal)
    placement = placement_choose(config, gpus_given(config, given))
    devices = await asyncio.to_thread(engine_devices_plan, Path(model), config, placement)
    trainer = TrainerRanks(
        model, config, placement.device, gpus=placement.trainer_gpus, shares_device=placement.shared,
        engine_nodes=nodes,
    )  # fmt: skip

    comparison = Comparison(resumes=resumes and not placement.shared)

    async def start(others: OtherNodes | None) -> Engine:
        load = partial(
            VllmEngine.start, model, config, placement.device, shares_device=placement.shared,
            tensor_parallel=devices.tensor_parallel, memory_share=devices.memory_share, others=others,
            awaits_weights=comparison.resumes,
        )  # fmt: skip
        loads = [partial(load, gpus=gpus) for gpus in placement.engines(devices.tensor_parallel)]
        return await engines_start(loads, on_progress=on_progress)

    async def compare(engine: Engine, loading: asyncio.Task[None]) -> None:
        await loading
        await comparison.resumed()
        with handover_make(f"{name}-rehearsal", nodes) as handover:
            which = "the weights of its state" if comparison.resumes else "the base weights"
            await rehearse(engine, trainer, Path(model), handover, comparison.alone, which)

    try:
        with engine_nodes(model, config, nodes) as others:
            starting = partial(start, others)
            async with engine_loaded(starting, trainer.ready, shared=placement.shared) as (engine, loading):
                comparison.begin(compare(engine, loading))
                try:
                    if placement.shared:  # the trainer waits for the engine there, which sleeps while it is compared
                        await comparison.passed()
                    yield engine, trainer, comparison
                finally:
                    await comparison.end()
    finally:
        await trainer.close()
