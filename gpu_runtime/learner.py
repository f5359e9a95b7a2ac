"""One batch at a time: train it, hand the weights to the engine, record it; and do it again after a restart.

The order of writes is what makes a kill harmless: a batch is in the journal before it is trained, a step after its
weights are served, a checkpoint once its manifest is in the store. What lies between is trained again, to the same bits.
"""

import asyncio
import logging
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from tinkerscript.wire.checkpoints import CheckpointKind
from tinkerscript.wire.events import EventKind, StepMetrics
from tinkerscript.wire.runtime import Assignment

from .agent import Agent
from .errors import StepRefused
from .gateway.episodes import Episodes
from .interfaces import Engine, Sample, Trainer
from .journal import Journal
from .journal_records import BatchRecord
from .training.batching import BatchSamples, batch_samples
from .weights.store import checkpoint_fetch, checkpoint_upload, folder_publish

log = logging.getLogger(__name__)

STATES_KEPT = 2  # local copies; the store keeps them all


class Learner:
    """The trainer's side of a session. Its methods are called by ``run.py`` alone, one after the other.

    ``handover`` is where weights pass from trainer to engine: memory, not disk, where the machine has it.
    """

    def __init__(
        self, assignment: Assignment, volume: Path, handover: Path, agent: Agent, journal: Journal, episodes: Episodes,
        engine: Engine, trainer: Trainer,
    ) -> None:  # fmt: skip
        self._assignment, self._config = assignment, assignment.config
        self._volume, self._handover = volume, handover
        self._agent, self._journal, self._episodes = agent, journal, episodes
        self._engine, self._trainer = engine, trainer
        self._upload: asyncio.Task[None] | None = None
        self._rollout_began = time.monotonic()

    async def restore(self) -> int:
        """Become what the journal says: load the last committed state, train the batches after it again. Answers the step."""
        step = 0
        if point := self._assignment.resume_from:
            self._agent.status.advance(f"fetching the state of step {point.step}")
            folder = self._state_folder(point.step)
            await checkpoint_fetch(point, folder)
            await self._trainer.load_state(folder)
            step = point.step
        for batch in self._journal.batches_after(step):
            self._agent.status.advance(f"training step {batch.step} again")
            samples = batch_samples(self._journal, batch, self._config)
            try:
                metrics = await self._update(batch.step, samples.samples)
            except StepRefused as refusal:
                self._refuse(batch, refusal)
                continue
            step = batch.step
            self._finish(batch, samples, metrics, train_s=0.0, handover_s=0.0)
        if step:
            await self._hand_over(step)
        return step

    async def train(self, batch: BatchRecord) -> None:
        """Train a journaled batch and serve the result. A refused step leaves the weights and says so."""
        rollout_s = time.monotonic() - self._rollout_began
        status = self._agent.status
        status.advance(f"training step {batch.step}")
        samples = await asyncio.to_thread(batch_samples, self._journal, batch, self._config)
        began = time.monotonic()
        try:
            metrics = await self._update(batch.step, samples.samples)
        except StepRefused as refusal:
            self._refuse(batch, refusal)
            return
        trained = time.monotonic()
        status.advance(f"handing over the weights of step {batch.step}")
        if samples.samples:
            await self._hand_over(batch.step)
        else:
            self._engine.version = batch.step  # nothing to learn from: the same weights under the next number
        timing = {"train_s": trained - began, "handover_s": time.monotonic() - trained}
        self._finish(batch, samples, metrics, rollout_s=rollout_s, **timing)
        self._rollout_began = time.monotonic()
        if batch.step % self._config.checkpoint_every_steps == 0:
            await self.save_state(batch.step)

    async def save_state(self, step: int, checkpoint_id: str | None = None) -> None:
        """A resumable checkpoint: on this volume when the call returns, in the store soon after, in the background."""
        await self.settle()
        folder = self._state_folder(step)
        if not folder.exists():
            self._agent.status.advance(f"saving the state of step {step}")
            with folder_publish(folder) as aside:
                await self._trainer.save_state(aside)
        self._upload = asyncio.create_task(self._publish(folder, CheckpointKind.STATE, step, checkpoint_id))

    async def export_model(self, step: int, checkpoint_id: str) -> None:
        """A Hugging Face folder in the store, for the order ``checkpoint_id``."""
        self._agent.status.advance(f"exporting the model of step {step}")
        folder = self._volume / "export"
        with folder_publish(folder) as aside:
            await self._trainer.export_model(aside)
        await self._publish(folder, CheckpointKind.MODEL, step, checkpoint_id)
        shutil.rmtree(folder)

    async def settle(self) -> None:
        """Wait until the upload under way is committed. Raises what it raised."""
        if self._upload is not None:
            await self._upload
            self._upload = None

    async def _update(self, step: int, samples: Sequence[Sample]) -> dict[str, float]:
        if not samples:
            return {"loss": 0.0, "kl_engine": 0.0, "entropy": 0.0, "clip_fraction": 0.0, "tokens_trained": 0.0,
                    "tokens_computed": 0.0, "grad_norm": 0.0, "learning_rate": 0.0}  # fmt: skip
        metrics = await self._trainer.forward_backward(samples)
        self._agent.status.advance()
        return metrics | await self._trainer.optim_step(step)

    async def _hand_over(self, version: int) -> None:
        await self._trainer.publish(self._handover)
        self._agent.status.advance()
        await self._engine.load_weights(self._handover, version)

    def _finish(
        self, batch: BatchRecord, samples: BatchSamples, metrics: dict[str, float], *,
        train_s: float, handover_s: float, rollout_s: float = 0.0,
    ) -> None:  # fmt: skip
        measured = StepMetrics(
            step=batch.step, **samples.summary, **metrics, rollout_s=rollout_s, train_s=train_s, handover_s=handover_s
        )
        self._episodes.step_done(batch.step, measured.model_dump())
        self._agent.status.update(policy_version=batch.step, reward_mean=measured.reward_mean)
        self._agent.report(EventKind.METRIC, measured.model_dump(), key=f"step {batch.step}")

    def _refuse(self, batch: BatchRecord, refusal: StepRefused) -> None:
        log.error("step %d refused: %s", batch.step, refusal)
        ids = [episode for group in batch.groups for episode in group]
        self._journal.batch_discard(batch.step, f"step_refused: {refusal}")
        data = {"name": "step_refused", "step": batch.step, "reason": str(refusal), "hint": refusal.hint, "episodes": ids}
        self._agent.report(EventKind.EVENT, data, key=f"refused {batch.step} {ids[0]}")

    async def _publish(self, folder: Path, kind: CheckpointKind, step: int, checkpoint_id: str | None) -> None:
        committed = await checkpoint_upload(self._agent, folder, kind, step, checkpoint_id)
        self._agent.order_done(committed)
        for old in sorted(self._volume.glob("state-*"))[:-STATES_KEPT]:
            shutil.rmtree(old)

    def _state_folder(self, step: int) -> Path:
        return self._volume / f"state-{step:08d}"
