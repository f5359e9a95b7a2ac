"""One batch at a time: train it, hand the weights to the engine, record it; and do it again after a restart.

The order of writes makes a kill harmless: a batch is in the journal before it is trained, a step after its weights
are served, a checkpoint once its manifest is in the store. What lies between is trained again, to the same bits.

A batch is refused, with the weights as they were, when the engine's log-probabilities of fresh tokens are not the
trainer's (again on tokens sampled after new weights: the session ends), when its loss or gradient is not finite, when
its gradient's norm is above ``grad_norm_limit``, when a rank could not have the memory for it, or when a rank was
killed over it twice, which is how the kernel says the same. The batch stays in the journal and can be downloaded by
the name in the event. One that teaches nothing is set aside.
"""

import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tinkerscript.wire.checkpoints import CheckpointKind
from tinkerscript.wire.events import EventKind, StepMetrics
from tinkerscript.wire.runtime import Assignment

from .archive.archive import Archive
from .control_plane.agent import Agent
from .control_plane.failed_checkpoints import upload_failed
from .episodes.advice import STEPS_UNTIL_ADVICE, advice, nothing_to_learn, watched_steps
from .episodes.batches import Batches
from .errors import EngineMismatch, OutOfMemory, StepRefused, StoreUnavailable, TrainerKilled
from .health.deadlines import Phase
from .health.file_progress import report_file_progress
from .interfaces import Engine, Trainer
from .journal.trainer_logprobs import TokenValues
from .object_store.staging import folder_publish
from .object_store.uploads import ObjectStore
from .steps.comparison import Comparison
from .steps.device import device_lent
from .steps.refused import MismatchCount, refusal_event
from .steps.resumed_state import ResumedState, state_folder, state_of
from .steps.updates import NOTHING_LEARNED, batch_train
from .training.batching import Batch, Group, batch_samples, batch_statistics, reference_gaps, samples_with_signal
from .training.objective.entropy_control import entropy_coef_of
from .training.token_lists import by_answer
from .weights.model_card import card_write

log = logging.getLogger(__name__)

FLUSH_S = 600.0  # as long as the control plane may be away
STATES_KEPT = 2  # local copies; the store keeps them all
ATTEMPTS = 2  # at a batch over which a rank was killed


class Learner:
    """The trainer's side of a session. Its methods are called by ``run.py`` alone, one after the other.

    ``handover`` is where weights pass from trainer to engine: memory, not disk, where the machine has it.
    """

    def __init__(
        self, assignment: Assignment, volume: Path, handover: Path, agent: Agent, store: ObjectStore, batches: Batches,
        engine: Engine, trainer: Trainer, archive: Archive,
    ) -> None:  # fmt: skip
        self._assignment, self._config = assignment, assignment.config
        self._volume, self._handover = volume, handover
        self._agent, self._store, self._batches = agent, store, batches
        self._engine, self._trainer, self._archive = engine, trainer, archive
        self._upload: asyncio.Task[None] | None = None
        self._status, self._mismatches = agent.status, MismatchCount()
        trainer.on_progress = agent.status.advance
        batches.on_set_aside = self._tell_of_level_groups
        self.on_committed: Callable[[int], Awaitable[None]] | None = None  # with the step of the last committed state
        self.comparison = Comparison()  # until it has passed, nothing is done with the trainer
        self.weights_file: Awaitable[Path] | None = None  # of the state, where the comparison resumes
        self.uses_trainer = False  # a rank that ends meanwhile is this learner's business, and no other part's
        self._rollout_began = time.monotonic()

    async def restore(self) -> int:
        """Load the state to go on from, and train again what the journal holds after it. Returns the policy version."""
        point = state_of(self._assignment)
        step = point.step if point else 0
        is_served = self.comparison.resumes or point is None  # without the trainer
        if point:
            state = ResumedState(self._store, point, self._assignment.engine_nodes, self._volume, self._status.advance)
            self._status.begin(Phase.RESTORING, f"fetching the {'weights' if is_served else 'state'} of step {step}")
            await (state.serve(self.weights_file, self._engine, self._handover) if is_served else state.fetch())
            self.comparison.resume_by(partial(state.load, self._trainer))
        if is_served and await self._batches.batch(step + 1) is None:
            return step  # what calls need is there
        async with self._using_trainer():
            if not is_served:
                self._status.begin(Phase.RESTORING, f"loading the state of step {step}")
                await self._trainer.load_state(state_folder(self._volume, step))
            while (batch := await self._batches.batch(step + 1)) is not None:
                self._status.begin(Phase.RESTORING, f"training step {batch.step} again")
                if not await self._learn_or_refuse(batch, serve=False):
                    break
                step = batch.step
                await self._save_when_due(step)  # it may have been killed before the store had it
            if step or point:
                await self._hand_over(step)
        return step

    async def train(self, batch: Batch) -> None:
        """Train a journaled batch and serve the result. A refused step changes no weights and is recorded."""
        async with self._using_trainer():
            self._status.begin(Phase.TRAINING, f"training step {batch.step}")
            if await self._learn_or_refuse(batch, serve=True):
                await self._save_when_due(batch.step)

    async def save_state(self, step: int, checkpoint_id: str | None = None) -> None:
        """A resumable checkpoint: on this volume when the call returns, in the store soon after, in the background."""
        # A state that the store did not take is made up for by this one; the session's record shows that it was missed.
        with contextlib.suppress(StoreUnavailable):
            await self.settle()
        folder = state_folder(self._volume, step)
        if not folder.exists():  # else it was fetched, or saved before
            await self.comparison.passed()
        if not folder.exists():
            self._status.begin(Phase.SAVING, f"saving the state of step {step}")
            with folder_publish(folder) as staging:
                async with report_file_progress(staging, self._status.advance):
                    await self._trainer.save_state(staging)
        self._upload = asyncio.create_task(self._publish(folder, CheckpointKind.STATE, step, checkpoint_id))

    async def export_model(self, step: int, checkpoint_id: str) -> None:
        """A Hugging Face folder in the store, for the order ``checkpoint_id``."""
        await self.comparison.passed()
        self._status.begin(Phase.SAVING, f"exporting the model of step {step}")
        folder = self._volume / "export"
        with folder_publish(folder) as staging:
            async with report_file_progress(staging, self._status.advance):
                await self._trainer.export_model(staging)
            card_write(self._assignment, step, staging)
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
        """Whether the step was done. Raises TrainerFailed for a rank lost but by SIGKILL, EngineTrainerMismatch."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                batch = await self._with_reference_gaps(batch)
                if await self._teaches_nothing(batch):
                    await self._batches.set_aside(batch.step, batch.groups)
                    return False
                await self._learn(batch, serve=serve)
                return True
            except OutOfMemory as refusal:
                await self._refuse(batch, refusal)
                await self.trainer_again(batch.step - 1)
                return False
            except StepRefused as refusal:
                await self._refuse(batch, refusal)
                again = isinstance(refusal, EngineMismatch) and self._mismatches.needs_weights(batch, refusal)
                if self._config.minibatches * self._config.epochs > 1:  # earlier updates of the step may stand
                    await self.trainer_again(batch.step - 1)
                if again:
                    await self._hand_over(batch.step - 1)
                    self._mismatches.handed_over(time.time())
                return False
            except TrainerKilled as killed:
                log.warning("step %d, attempt %d: %s", batch.step, attempt, killed)
                if attempt == ATTEMPTS:
                    await self._refuse(batch, OutOfMemory(f"{killed}, {ATTEMPTS} times: out of memory?"))
                await self.trainer_again(batch.step - 1)
        return False

    async def _with_reference_gaps(self, batch: Batch) -> Batch:
        """For a KL term in the reward. Recorded before the step: a replay and a download have the same numbers."""
        if self._config.kl_in == "loss" or all(each.reference_gap is not None for each in batch.episodes):
            return batch
        samples = await asyncio.to_thread(batch_samples, batch, self._config)
        async with device_lent(self._engine):
            reference_ST = await self._trainer.logprobs(samples, reference=True)
        return await self._batches.record_gaps(batch.step, reference_gaps(batch, samples, reference_ST)) or batch

    async def _teaches_nothing(self, batch: Batch) -> bool:
        # A step that was counted keeps its number, whatever was erased of it: the states after it are named by theirs.
        samples = await asyncio.to_thread(samples_with_signal, batch, self._config)
        return not samples and await self._batches.step_metrics(batch.step) is None

    def _tell_of_level_groups(self, step: int, spreads: Sequence[float], groups: Sequence[Group]) -> None:
        """An event each time that as many groups were set aside in a row as STEPS_UNTIL_ADVICE steps have."""
        total, many = len(spreads), STEPS_UNTIL_ADVICE * self._config.tasks_per_batch
        if total // many > (total - len(groups)) // many:
            data = nothing_to_learn(step, spreads, groups)
            log.warning("%s", data["reason"])
            self._agent.report(EventKind.EVENT, data, key=f"nothing_to_learn {step} {total // many}")

    async def trainer_again(self, step: int) -> None:
        """New ranks with the weights of ``step``: the last state on this volume, and the steps after it once more."""
        self._status.begin(Phase.RESTORING, "starting the trainer again")
        await self._trainer.restart()
        saved = (int(folder.name.removeprefix("state-")) for folder in self._volume.glob("state-*"))
        reached = max((at for at in saved if at <= step), default=0)
        if reached or self._assignment.starts_from is not None:
            await self._trainer.load_state(state_folder(self._volume, reached))
        while reached < step and (batch := await self._batches.batch(reached + 1)) is not None:
            self._status.begin(Phase.RESTORING, f"training step {batch.step} again")
            await self._update(batch)
            reached = batch.step

    async def _learn(self, batch: Batch, *, serve: bool) -> None:
        """Samples, gradient, step, hand-over, record."""
        began = time.monotonic()
        metrics, before, after = await self._update(batch)
        trained = time.monotonic()
        if serve and metrics["tokens_computed"]:
            self._status.begin(Phase.HANDOVER, f"handing over the weights of step {batch.step}")
            await self._hand_over(batch.step)
        self._engine.version = batch.step  # also where there was nothing to learn: the same weights, the next number
        replaced = await self._batches.groups_set_aside(batch.step)
        statistics: dict[str, Any] = batch_statistics(batch, self._config, [it for it in replaced if it is not None])
        if statistics["staleness_max"] == 0 and metrics["tokens_trained"]:
            self._mismatches.agreed()
        measured = StepMetrics(
            step=batch.step, **statistics, **metrics, groups_replaced=len(replaced), train_s=trained - began,
            rollout_s=began - self._rollout_began, handover_s=time.monotonic() - trained,
        )  # fmt: skip
        await self._batches.step_done(batch.step, measured.model_dump(), before, after)
        self._status.update(policy_version=batch.step, reward_mean=measured.reward_mean)
        self._agent.report(EventKind.METRIC, measured.model_dump(), key=f"step {batch.step}")
        self._rollout_began = time.monotonic()
        await self._warn(batch.step)

    async def _warn(self, step: int) -> None:
        history = [await self._batches.step_metrics(number) for number in watched_steps(step)]
        # A replayed step has later ones on record.
        for data in advice(step, [each for each in history if each is not None and each["step"] <= step]):
            log.warning("%s", data["reason"])
            self._agent.report(EventKind.EVENT, data, key=f"{data['name']} {step}")

    async def _update(self, batch: Batch) -> tuple[dict[str, Any], TokenValues, TokenValues]:
        samples = await asyncio.to_thread(samples_with_signal, batch, self._config)
        if not samples:
            return dict.fromkeys(NOTHING_LEARNED, 0.0), {}, {}
        staleness = int(batch_statistics(batch, self._config)["staleness_max"])
        coef = entropy_coef_of(self._config, await self._batches.step_metrics(batch.step - 1))
        counted = await self._batches.step_metrics(batch.step) is not None
        async with device_lent(self._engine):
            done = await batch_train(self._trainer, self._config, samples, batch.step, staleness, coef, counted)
        both = done.before_ST, done.after_ST
        before, after = [await asyncio.to_thread(by_answer, batch, samples, values_ST) for values_ST in both]
        return done.metrics | {"entropy_coef": coef}, before, after

    async def _hand_over(self, version: int) -> None:
        await self._trainer.publish(self._handover)
        self._status.advance()
        await self._engine.load_weights(self._handover, version)

    async def _refuse(self, batch: Batch, refusal: StepRefused) -> None:
        log.error("step %d refused: %s", batch.step, refusal)
        data = refusal_event(batch, refusal)
        self._agent.report(EventKind.EVENT, data, key=f"refused {data['batch']}")
        await self._batches.step_refused(batch.step, f"step_refused: {refusal}")

    @contextlib.asynccontextmanager
    async def _using_trainer(self) -> AsyncIterator[None]:
        if not self.comparison.is_over:
            self._status.begin(Phase.LOADING, "loading the trainer")
        await self.comparison.passed()
        self.uses_trainer = True
        yield
        self.uses_trainer = False  # not after an error: that is on its way to end the runtime, with the right name

    async def _publish(self, folder: Path, kind: CheckpointKind, step: int, checkpoint_id: str | None) -> None:
        try:
            if kind == CheckpointKind.STATE:
                # The next runtime begins at a committed state: what is older must be out of here before it.
                await self._agent.flush(FLUSH_S)
            # The journal too; and a reader who sees a checkpoint finds in the archive what it was trained on.
            await self._archive.publish(on_progress=self._part_stored)
            committed = await self._store.checkpoint_upload(
                folder, kind, step, checkpoint_id, on_progress=self._part_stored
            )
        except StoreUnavailable as fault:
            await upload_failed(self._agent, checkpoint_id, fault)
            raise
        self._agent.order_done(committed)
        for old in sorted(self._volume.glob("state-*"))[:-STATES_KEPT]:
            shutil.rmtree(old)
        if kind == CheckpointKind.STATE and self.on_committed is not None:
            await self.on_committed(step)

    def _part_stored(self) -> None:
        if not self.uses_trainer:  # beside a step, an upload must not hide that the step stands still
            self._status.advance()
