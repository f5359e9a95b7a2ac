"""One batch at a time: train it, hand the weights to the engine, record it; and do it again after a restart.

The order of writes makes a kill harmless: a batch is in the journal before it is trained, a step after its weights
are served, a checkpoint once its manifest is in the store. What lies between is trained again, to the same bits.
"""

import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from tinkerscript.wire.checkpoints import CheckpointKind
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.events import EventKind, StepMetrics
from tinkerscript.wire.runtime import Assignment

from .agent import Agent
from .errors import StepRefused, StoreUnavailable
from .gateway.batches import Batches
from .interfaces import Engine, Sample, Trainer
from .replica import JournalReplica
from .training.batching import Batch, batch_samples, batch_statistics
from .training.parity import ParityAlarm
from .weights.store import checkpoint_fetch, checkpoint_upload, folder_publish

log = logging.getLogger(__name__)

FLUSH_S = 600.0  # as long as the control plane may be away
STATES_KEPT = 2  # local copies; the store keeps them all
NOTHING_LEARNED = ("loss", "kl_engine", "entropy", "clip_fraction", "tokens_trained", "tokens_computed", "grad_norm",
                   "learning_rate")  # fmt: skip


class Learner:
    """The trainer's side of a session. Its methods are called by ``run.py`` alone, one after the other.

    ``handover`` is where weights pass from trainer to engine: memory, not disk, where the machine has it.
    """

    def __init__(
        self, assignment: Assignment, volume: Path, handover: Path, agent: Agent, batches: Batches, engine: Engine,
        trainer: Trainer, replica: JournalReplica,
    ) -> None:  # fmt: skip
        self._assignment, self._config = assignment, assignment.config
        self._volume, self._handover = volume, handover
        self._agent, self._batches = agent, batches
        self._engine, self._trainer, self._replica = engine, trainer, replica
        self._upload: asyncio.Task[None] | None = None
        self._parity = ParityAlarm(trainer.dtype)
        self._rollout_began = time.monotonic()

    async def restore(self) -> int:
        """Load the last committed state and train again what the journal holds after it. Answers the policy version."""
        step = 0
        if point := self._assignment.resume_from:
            self._agent.status.advance(f"fetching the state of step {point.step}")
            folder = self._state_folder(point.step)
            await checkpoint_fetch(point, folder)
            await self._trainer.load_state(folder)
            step = point.step
        while (batch := await self._batches.batch(step + 1)) is not None:
            self._agent.status.advance(f"training step {batch.step} again")
            if await self._learn(batch, serve=False) is None:
                break
            step = batch.step
            await self._save_when_due(step)  # it may have been killed before the store had it
        if step:
            await self._hand_over(step)
        return step

    async def train(self, batch: Batch) -> None:
        """Train a journaled batch and serve the result. A refused step leaves the weights and says so."""
        self._agent.status.advance(f"training step {batch.step}")
        if await self._learn(batch, serve=True):
            await self._save_when_due(batch.step)

    async def save_state(self, step: int, checkpoint_id: str | None = None) -> None:
        """A resumable checkpoint: on this volume when the call returns, in the store soon after, in the background."""
        # A state that the store did not take is made up for by this one; the session's record says that it was missed.
        with contextlib.suppress(StoreUnavailable):
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
        upload, self._upload = self._upload, None
        if upload is not None:
            await upload

    async def _save_when_due(self, step: int) -> None:
        if step % self._config.checkpoint_every_steps == 0:
            await self.save_state(step)

    async def _learn(self, batch: Batch, *, serve: bool) -> StepMetrics | None:
        """Samples, gradient, step, hand-over, record; none if the step was refused."""
        rollout_s = time.monotonic() - self._rollout_began
        samples = await asyncio.to_thread(trainable, batch, self._config)
        began = time.monotonic()
        try:
            metrics = await self._update(batch.step, samples)
        except StepRefused as refusal:
            await self._refuse(batch, refusal)
            return None
        trained = time.monotonic()
        if serve and samples:
            self._agent.status.advance(f"handing over the weights of step {batch.step}")
            await self._hand_over(batch.step)
        self._engine.version = batch.step  # also where there was nothing to learn: the same weights, the next number
        measured = StepMetrics(
            step=batch.step, **batch_statistics(batch), **metrics, rollout_s=rollout_s, train_s=trained - began,
            handover_s=time.monotonic() - trained,
        )  # fmt: skip
        await self._batches.step_done(batch.step, measured.model_dump())
        self._agent.status.update(policy_version=batch.step, reward_mean=measured.reward_mean)
        self._agent.report(EventKind.METRIC, measured.model_dump(), key=f"step {batch.step}")
        if mismatch := self._parity.check(measured):
            self._agent.report(EventKind.EVENT, mismatch, key=f"mismatch {batch.step}")
        self._rollout_began = time.monotonic()
        return measured

    async def _update(self, step: int, samples: Sequence[Sample]) -> dict[str, float]:
        if not samples:
            return dict.fromkeys(NOTHING_LEARNED, 0.0)
        metrics = await self._trainer.forward_backward(samples)
        self._agent.status.advance()
        return metrics | await self._trainer.optim_step(step)

    async def _hand_over(self, version: int) -> None:
        await self._trainer.publish(self._handover)
        self._agent.status.advance()
        await self._engine.load_weights(self._handover, version)

    async def _refuse(self, batch: Batch, refusal: StepRefused) -> None:
        log.error("step %d refused: %s", batch.step, refusal)
        ids = [episode.record.id for episode in batch.episodes]
        data = {
            "name": "step_refused",
            "step": batch.step,
            "reason": str(refusal),
            "hint": refusal.hint,
            "episodes": ids,
        }
        self._agent.report(EventKind.EVENT, data, key=f"refused {batch.step} {ids[0]}")
        await self._batches.step_refused(batch.step, f"step_refused: {refusal}")

    async def _publish(self, folder: Path, kind: CheckpointKind, step: int, checkpoint_id: str | None) -> None:
        try:
            if kind == CheckpointKind.STATE:
                # The next runtime begins at a committed state: what is older must be out of here before it.
                await self._agent.flush(FLUSH_S)
                await self._replica.renew()
            committed = await checkpoint_upload(self._agent, folder, kind, step, checkpoint_id)
        except StoreUnavailable:
            if checkpoint_id is not None:
                self._agent.order_failed(checkpoint_id)  # heartbeats will bring it again
            raise
        self._agent.order_done(committed)
        for old in sorted(self._volume.glob("state-*"))[:-STATES_KEPT]:
            shutil.rmtree(old)

    def _state_folder(self, step: int) -> Path:
        return self._volume / f"state-{step:08d}"


def trainable(batch: Batch, config: SessionConfig) -> list[Sample]:
    """The samples with something to learn: a group whose rewards are all equal has no gradient but that of the KL term.

    Left out, such a group also leaves the mean over episodes, as in DAPO's dynamic sampling (arXiv:2503.14476, 3.2).
    """
    samples = batch_samples(batch, normalize=config.normalize_advantage)
    live = {sample.group for sample in samples if sample.says_something}
    return [sample for sample in samples if config.kl_coef > 0 or sample.group in live]
