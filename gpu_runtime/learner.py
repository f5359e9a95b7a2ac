"""One batch at a time: train it, hand the weights to the engine, record it; and do it again after a restart.

The order of writes makes a kill harmless: a batch is in the journal before it is trained, a step after its weights
are served, a checkpoint once its manifest is in the store. What lies between is trained again, to the same bits.

A batch is refused, with the weights as they were, when its loss or gradient is not finite, when its gradient's norm is
above ``grad_norm_limit``, when a rank could not have the memory for it, or when a rank was killed over it twice, which
is how the kernel says the same. The batch stays in the journal and can be downloaded by the name in the event.
"""

import asyncio
import contextlib
import logging
import math
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

from tinkerscript.wire.checkpoints import CheckpointKind
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.events import EventKind, StepMetrics
from tinkerscript.wire.runtime import Assignment

from .agent import Agent
from .archive import Archive
from .deadlines import Phase
from .errors import OutOfMemory, StepRefused, StoreUnavailable, TrainerKilled
from .gateway.batches import Batches
from .growth import growing
from .interfaces import Engine, Sample, Trainer
from .journal_records import refused_name
from .training.batching import Batch, batch_samples, batch_statistics
from .training.parity import ParityAlarm
from .weights.store import checkpoint_fetch, checkpoint_upload, folder_publish

log = logging.getLogger(__name__)

FLUSH_S = 600.0  # as long as the control plane may be away
STATES_KEPT = 2  # local copies; the store keeps them all
ATTEMPTS = 2  # at a batch over which a rank was killed
NOTHING_LEARNED = ("loss", "kl_engine", "entropy", "clip_fraction", "tokens_trained", "tokens_computed", "grad_norm",
                   "learning_rate")  # fmt: skip


class Learner:
    """The trainer's side of a session. Its methods are called by ``run.py`` alone, one after the other.

    ``handover`` is where weights pass from trainer to engine: memory, not disk, where the machine has it.
    """

    def __init__(
        self, assignment: Assignment, volume: Path, handover: Path, agent: Agent, batches: Batches, engine: Engine,
        trainer: Trainer, archive: Archive,
    ) -> None:  # fmt: skip
        self._assignment, self._config = assignment, assignment.config
        self._volume, self._handover = volume, handover
        self._agent, self._batches = agent, batches
        self._engine, self._trainer, self._archive = engine, trainer, archive
        self._upload: asyncio.Task[None] | None = None
        self._status = agent.status
        self._parity = ParityAlarm(trainer.dtype)
        trainer.on_progress = agent.status.advance
        self.uses_trainer = False  # a rank that ends meanwhile is this learner's business, and nobody else's
        self._rollout_began = time.monotonic()

    async def restore(self) -> int:
        """Load the last committed state and train again what the journal holds after it. Answers the policy version."""
        step = 0
        with self._using_trainer():
            if point := self._assignment.resume_from:
                self._status.begin(Phase.RESTORING, f"fetching the state of step {point.step}")
                await checkpoint_fetch(point, self._state_folder(point.step), on_progress=self._status.advance)
                step = point.step
            if step:
                await self._trainer.load_state(self._state_folder(step))
            while (batch := await self._batches.batch(step + 1)) is not None:
                self._status.begin(Phase.RESTORING, f"training step {batch.step} again")
                if not await self._learn_or_refuse(batch, serve=False):
                    break
                step = batch.step
                await self._save_when_due(step)  # it may have been killed before the store had it
            if step:
                await self._hand_over(step)
        return step

    async def train(self, batch: Batch) -> None:
        """Train a journaled batch and serve the result. A refused step leaves the weights and says so."""
        with self._using_trainer():
            self._status.begin(Phase.TRAINING, f"training step {batch.step}")
            if await self._learn_or_refuse(batch, serve=True):
                await self._save_when_due(batch.step)

    async def save_state(self, step: int, checkpoint_id: str | None = None) -> None:
        """A resumable checkpoint: on this volume when the call returns, in the store soon after, in the background."""
        # A state that the store did not take is made up for by this one; the session's record says that it was missed.
        with contextlib.suppress(StoreUnavailable):
            await self.settle()
        folder = self._state_folder(step)
        if not folder.exists():
            self._status.begin(Phase.SAVING, f"saving the state of step {step}")
            with folder_publish(folder) as aside:
                async with growing(aside, self._status.advance):
                    await self._trainer.save_state(aside)
        self._upload = asyncio.create_task(self._publish(folder, CheckpointKind.STATE, step, checkpoint_id))

    async def export_model(self, step: int, checkpoint_id: str) -> None:
        """A Hugging Face folder in the store, for the order ``checkpoint_id``."""
        self._status.begin(Phase.SAVING, f"exporting the model of step {step}")
        folder = self._volume / "export"
        with folder_publish(folder) as aside:
            async with growing(aside, self._status.advance):
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

    async def _learn_or_refuse(self, batch: Batch, *, serve: bool) -> bool:
        """Whether the step was done. Raises TrainerFailed when a rank is lost in any other way than by a SIGKILL."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._learn(batch, serve=serve)
                return True
            except OutOfMemory as refusal:
                await self._refuse(batch, refusal)
                await self._trainer_again(batch.step - 1)
                return False
            except StepRefused as refusal:
                await self._refuse(batch, refusal)
                return False
            except TrainerKilled as killed:
                log.warning("step %d, attempt %d: %s", batch.step, attempt, killed)
                if attempt == ATTEMPTS:
                    await self._refuse(batch, OutOfMemory(f"{killed}, {ATTEMPTS} times: out of memory?"))
                await self._trainer_again(batch.step - 1)
        return False

    async def _trainer_again(self, step: int) -> None:
        """New ranks with the weights of ``step``: the last state on this volume, and the steps after it once more."""
        self._status.begin(Phase.RESTORING, "starting the trainer again")
        await self._trainer.restart()
        saved = [int(folder.name.removeprefix("state-")) for folder in self._volume.glob("state-*")]
        reached = max((at for at in saved if at <= step), default=0)
        if reached:
            await self._trainer.load_state(self._state_folder(reached))
        while reached < step and (batch := await self._batches.batch(reached + 1)) is not None:
            self._status.begin(Phase.RESTORING, f"training step {batch.step} again")
            await self._update(batch.step, await asyncio.to_thread(trainable, batch, self._config))
            reached = batch.step

    async def _learn(self, batch: Batch, *, serve: bool) -> None:
        """Samples, gradient, step, hand-over, record."""
        rollout_s = time.monotonic() - self._rollout_began
        samples = await asyncio.to_thread(trainable, batch, self._config)
        began = time.monotonic()
        metrics: dict[str, Any] = await self._update(batch.step, samples)
        trained = time.monotonic()
        if serve and samples:
            self._status.begin(Phase.HANDOVER, f"handing over the weights of step {batch.step}")
            await self._hand_over(batch.step)
        self._engine.version = batch.step  # also where there was nothing to learn: the same weights, the next number
        statistics: dict[str, Any] = batch_statistics(batch)
        measured = StepMetrics(
            step=batch.step, **statistics, **metrics, rollout_s=rollout_s, train_s=trained - began,
            handover_s=time.monotonic() - trained,
        )  # fmt: skip
        await self._batches.step_done(batch.step, measured.model_dump())
        self._status.update(policy_version=batch.step, reward_mean=measured.reward_mean)
        self._agent.report(EventKind.METRIC, measured.model_dump(), key=f"step {batch.step}")
        if mismatch := self._parity.check(measured):
            self._agent.report(EventKind.EVENT, mismatch, key=f"mismatch {batch.step}")
        self._rollout_began = time.monotonic()

    async def _update(self, step: int, samples: Sequence[Sample]) -> dict[str, float]:
        if not samples:
            return dict.fromkeys(NOTHING_LEARNED, 0.0)
        async with self._device_lent():
            metrics = await self._trainer.forward_backward(samples)
            self._status.advance()
            broken = [f"{name} is {value}" for name, value in metrics.items() if not math.isfinite(value)]
            if broken:
                await self._trainer.drop_gradient()
                raise StepRefused(f"step {step}: {', '.join(broken)}")
            return metrics | await self._trainer.optim_step(step)

    async def _hand_over(self, version: int) -> None:
        await self._trainer.publish(self._handover)
        self._status.advance()
        await self._engine.load_weights(self._handover, version)

    async def _refuse(self, batch: Batch, refusal: StepRefused) -> None:
        log.error("step %d refused: %s", batch.step, refusal)
        ids = [[episode.record.id for episode in group.episodes] for group in batch.groups]
        data = {
            "name": "step_refused",
            "step": batch.step,
            "reason": str(refusal),
            "hint": refusal.hint,
            "code": refusal.code,
            "batch": refused_name(ids),
            "episodes": [episode_id for group in ids for episode_id in group],
        }
        self._agent.report(EventKind.EVENT, data, key=f"refused {data['batch']}")
        await self._batches.step_refused(batch.step, f"step_refused: {refusal}")

    @contextlib.contextmanager
    def _using_trainer(self) -> Iterator[None]:
        self.uses_trainer = True
        yield
        self.uses_trainer = False  # not after an error: that is on its way to end the runtime, with the right name

    @contextlib.asynccontextmanager
    async def _device_lent(self) -> AsyncIterator[None]:
        """Where engine and trainer share a device, the engine gives up its memory there for a step."""
        if not self._engine.shares_device:
            yield
            return
        await self._engine.sleep()
        self._status.advance()
        try:
            yield
        finally:
            await self._engine.wake()

    async def _publish(self, folder: Path, kind: CheckpointKind, step: int, checkpoint_id: str | None) -> None:
        try:
            if kind == CheckpointKind.STATE:
                # The next runtime begins at a committed state: what is older must be out of here before it.
                await self._agent.flush(FLUSH_S)
            # The journal too; and whoever sees a checkpoint finds in the archive what it was trained on.
            await self._archive.publish(on_progress=self._part_stored)
            committed = await checkpoint_upload(
                self._agent, folder, kind, step, checkpoint_id, on_progress=self._part_stored
            )
        except StoreUnavailable:
            if checkpoint_id is not None:
                self._agent.order_failed(checkpoint_id)  # heartbeats will bring it again
            raise
        self._agent.order_done(committed)
        for old in sorted(self._volume.glob("state-*"))[:-STATES_KEPT]:
            shutil.rmtree(old)

    def _part_stored(self) -> None:
        if not self.uses_trainer:  # beside a step, an upload must not hide that the step stands still
            self._status.advance()

    def _state_folder(self, step: int) -> Path:
        return self._volume / f"state-{step:08d}"


def trainable(batch: Batch, config: SessionConfig) -> list[Sample]:
    """The samples with something to learn: a group whose rewards are all equal has no gradient but that of the KL term.

    Left out, such a group also leaves the mean over episodes, as in DAPO's dynamic sampling (arXiv:2503.14476, 3.2).
    """
    samples = batch_samples(batch, normalize=config.normalize_advantage)
    live = {sample.group for sample in samples if sample.says_something}
    return [sample for sample in samples if config.kl_coef > 0 or sample.group in live]
