"""Rollouts and steps without gateway and journal: the real engine and trainer, driven as a
runtime's learner does.
"""

import asyncio
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.interfaces import SamplingOptions
from gpu_runtime.loop.advantages import group_advantages
from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.ranks import TrainerRanks
from support.rank_steps import gradient, optim_step
from tinkerscript.wire.config import SessionConfig


@dataclass
class Loop:
    """``handover`` is in memory where the machine has a folder there, as a session's is."""

    engine: VllmEngine
    trainer: TrainerRanks
    config: SessionConfig
    handover: Path

    async def rollout(
        self,
        prompts: Sequence[Sequence[int]],
        options: SamplingOptions,
        reward: Callable[[str], float],
    ) -> tuple[list[Sample], float]:
        """``grpo_n`` answers to each prompt as the samples of a batch, and the mean reward."""
        wanted = [prompt for prompt in prompts for _ in range(self.config.grpo_n)]
        answers = await asyncio.gather(*(self._answer(prompt, options) for prompt in wanted))
        rewards = [reward(text) for text, _, _ in answers]
        samples = []
        for number, (prompt, (_, ids, logprobs)) in enumerate(zip(wanted, answers, strict=True)):
            group, member = divmod(number, self.config.grpo_n)
            of_group = rewards[number - member :][: self.config.grpo_n]
            advantage = group_advantages(of_group, normalize=self.config.divides_by_spread)[member]
            before = len(prompt)
            mask, old = (0,) * before + (1,) * len(ids), (0.0,) * before + logprobs
            at = (1.0,) * before + (options.temperature,) * len(ids)
            samples.append(
                Sample((*prompt, *ids), mask, old, advantage, group=group, temperatures_T=at)
            )
        return samples, sum(rewards) / len(rewards)

    async def train(self, samples: Sequence[Sample], step: int) -> dict[str, float]:
        """One optimizer step; its metrics. An engine on the same device sleeps meanwhile."""
        if self.engine.shares_device:
            await self.engine.sleep()
        try:
            metrics = await gradient(self.trainer, samples)
            return metrics | await optim_step(self.trainer, step)
        finally:
            if self.engine.shares_device:
                await self.engine.wake()

    async def hand_over(self, step: int) -> None:
        """The engine serves the trainer's weights."""
        await self.trainer.publish(self.handover)
        await self.engine.load_weights(self.handover, step)

    async def _answer(self, prompt: Sequence[int], options: SamplingOptions):
        deltas = [delta async for delta in self.engine.generate(uuid.uuid4().hex, prompt, options)]
        ids = tuple(token for delta in deltas for token in delta.token_ids_T)
        logprobs = tuple(logprob for delta in deltas for logprob in delta.logprobs_T)
        return "".join(delta.text for delta in deltas), ids, logprobs


@asynccontextmanager
async def loop_open(model: str, config: SessionConfig, device: str) -> AsyncIterator[Loop]:
    """Both loaded; all their processes end with the block."""
    memory = Path("/dev/shm")
    handover = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    shared = device == "cuda"
    trainer = TrainerRanks(model, config, device, shares_device=shared)
    try:
        engine = await VllmEngine.start(EngineSpec(model, config, device, shares_device=shared))
        try:
            await trainer.ready()
            yield Loop(engine, trainer, config, handover)
        finally:
            await engine.close()
    finally:
        await trainer.close()
        shutil.rmtree(handover, ignore_errors=True)
