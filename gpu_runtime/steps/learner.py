"""One batch at a time: train it, hand the weights to the engine, record it; and do it again after a
restart.

The order of writes makes a kill harmless: a batch is in the journal before it is trained, a step
after its weights are served. What lies between is trained again, to the same bits.

A batch is refused, with the weights as they were, when the engine's log-probabilities of fresh
tokens are not the trainer's (again on tokens sampled after new weights: the session ends), when its
loss or gradient is not finite, when its gradient's norm is above ``grad_norm_limit``, when a rank
could not have the memory for it, or when a rank was killed over it twice, which is how the kernel
says the same. The batch stays in the journal and can be downloaded by the name in the event. One
that teaches nothing is set aside.
"""

import asyncio
import logging
import time
from functools import partial
from typing import Any

from gpu_runtime.episodes.advice.step_alarms import step_alarms
from gpu_runtime.episodes.advice.steps import advice, watched_steps
from gpu_runtime.episodes.batches import Batches
from gpu_runtime.errors import EngineMismatch, OutOfMemory, StepRefused, TrainerKilled
from gpu_runtime.health.status import Phase
from gpu_runtime.journal.records import refused_name
from gpu_runtime.journal.token_values import TokenValues
from gpu_runtime.loop.batching import Batch, batch_samples, by_answer, samples_with_signal
from gpu_runtime.loop.logprob_mismatch import MismatchCount
from gpu_runtime.loop.measures import batch_statistics, rewards_alike
from gpu_runtime.loop.reference_gaps import reference_gaps
from gpu_runtime.loop.step_options import entropy_coef_of, loss_settings
from gpu_runtime.session import Session
from gpu_runtime.steps.checkpoints import Checkpoints
from gpu_runtime.steps.comparison import Loaded
from gpu_runtime.steps.resumed_state import ResumedState, state_folder, state_of
from gpu_runtime.steps.updates import NOTHING_LEARNED, batch_train, samples_logprobs
from tinkerscript.wire.events import EventKind, StepMetrics

log = logging.getLogger(__name__)

ATTEMPTS = 2  # at a batch over which a rank was killed


class Learner:
    """The trainer's side of a session. Its methods are called by one task, one after the other."""

    def __init__(
        self, session: Session, loaded: Loaded, batches: Batches, checkpoints: Checkpoints
    ) -> None:
        self._session, self._config, self._batches = session, session.assignment.config, batches
        self._agent, self._status, self._checkpoints = session.agent, session.status, checkpoints
        self._loaded, self._engine, self._trainer = loaded, loaded.engine, loaded.trainer
        self._mismatches = MismatchCount()
        self._rollout_began = time.monotonic()

    async def restore(self) -> int:
        """Load the state to go on from, and train again what the journal holds after it. Returns
        the policy version.
        """
        loaded, point = self._loaded, state_of(self._session.assignment)
        step = point.step if point else 0
        is_served = loaded.comparison.resumes or point is None  # without the trainer
        if point:
            state = ResumedState(self._session, point)
            self._status.begin(
                Phase.RESTORING,
                f"fetching the {'weights' if is_served else 'state'} of step {step}",
            )
            await (
                state.serve(loaded.state_weights, self._engine, loaded.handover)
                if is_served
                else state.fetch()
            )
            loaded.comparison.resume_by(partial(state.load, self._trainer))
        if is_served and await self._batches.batch(step + 1) is None:
            return step  # what calls need is there
        async with loaded.training(self._status):
            if not is_served:
                self._status.begin(Phase.RESTORING, f"loading the state of step {step}")
                await self._trainer.load_state(state_folder(self._session.volume, step))
            while (batch := await self._batches.batch(step + 1)) is not None:
                self._status.begin(Phase.RESTORING, f"training step {batch.step} again")
                if not await self._learn_or_refuse(batch, serve=False):
                    break
                step = batch.step
                # it may have been killed before the store had it
                await self._checkpoints.save_when_due(step)
            if step or point:
                await loaded.hand_over(step, self._status)
        return step

    async def train(self, batch: Batch) -> None:
        """Train a journaled batch and serve the result. A refused step changes no weights and is
        recorded.
        """
        async with self._loaded.training(self._status):
            self._status.begin(Phase.TRAINING, f"training step {batch.step}")
            if await self._learn_or_refuse(batch, serve=True):
                await self._checkpoints.save_when_due(batch.step)

    async def _learn_or_refuse(self, batch: Batch, *, serve: bool) -> bool:
        """Whether the step was done. Raises TrainerFailed for a rank lost but by SIGKILL,
        EngineTrainerMismatch.
        """
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
                again = isinstance(refusal, EngineMismatch) and self._mismatches.needs_weights(
                    batch, refusal
                )
                # earlier updates of the step may stand
                if self._config.minibatches * self._config.epochs > 1:
                    await self.trainer_again(batch.step - 1)
                if again:
                    await self._loaded.hand_over(batch.step - 1, self._status)
                    self._mismatches.handed_over(time.time())
                return False
            except TrainerKilled as killed:
                log.warning("step %d, attempt %d: %s", batch.step, attempt, killed)
                if attempt == ATTEMPTS:
                    await self._refuse(
                        batch, OutOfMemory(f"{killed}, {ATTEMPTS} times: out of memory?")
                    )
                await self.trainer_again(batch.step - 1)
        return False

    async def _with_reference_gaps(self, batch: Batch) -> Batch:
        """For a KL term in the reward. Recorded before the step: a replay and a download have the
        same numbers.
        """
        if self._config.kl_in == "loss" or all(
            each.reference_gap is not None for each in batch.episodes
        ):
            return batch
        samples = await asyncio.to_thread(batch_samples, batch, self._config)
        async with self._engine.device_lent():
            before_ST, reference_ST = [
                await samples_logprobs(self._trainer, self._config, samples, reference=reference)
                for reference in (False, True)
            ]
        correction = self._config.engine_correction
        gaps = reference_gaps(batch, samples, before_ST, reference_ST, correction)
        return await self._batches.record_gaps(batch.step, gaps) or batch

    async def _teaches_nothing(self, batch: Batch) -> bool:
        # A step that was counted keeps its number, whatever was erased of it: the states after it
        # are named by theirs.
        config = await self._batches.config_at(batch.step)
        samples = await asyncio.to_thread(samples_with_signal, batch, config)
        return not samples and await self._batches.step_metrics(batch.step) is None

    async def trainer_again(self, step: int) -> None:
        """New ranks with the weights of ``step``: the last state on this volume, and the steps
        after it once more.
        """
        self._status.begin(Phase.RESTORING, "starting the trainer again")
        await self._trainer.restart()
        saved = (
            int(folder.name.removeprefix("state-"))
            for folder in self._session.volume.glob("state-*")
        )
        reached = max((at for at in saved if at <= step), default=0)
        if reached or self._session.assignment.starts_from is not None:
            await self._trainer.load_state(state_folder(self._session.volume, reached))
        while reached < step and (batch := await self._batches.batch(reached + 1)) is not None:
            self._status.begin(Phase.RESTORING, f"training step {batch.step} again")
            await self._update(batch)
            reached = batch.step
        self._loaded.writes = False

    async def _learn(self, batch: Batch, *, serve: bool) -> None:
        """Samples, gradient, step, hand-over, record."""
        began = time.monotonic()
        metrics, before, after = await self._update(batch)
        trained = time.monotonic()
        if serve and metrics["tokens_computed"]:
            self._status.begin(Phase.HANDOVER, f"handing over the weights of step {batch.step}")
            await self._loaded.hand_over(batch.step, self._status)
        # also where there was nothing to learn: the same weights, the next number
        self._engine.version = batch.step
        replaced = await self._batches.groups_set_aside(batch.step)
        config = await self._batches.config_at(batch.step)
        statistics: dict[str, Any] = batch_statistics(
            batch, config, [it for it in replaced if it is not None]
        )
        if statistics["staleness_max"] == 0 and metrics["tokens_trained"]:
            self._mismatches.agreed()
        measured = StepMetrics(
            step=batch.step,
            **statistics,
            **metrics,
            groups_level=sum(
                rewards_alike(episode.output for episode in group.episodes)
                for group in batch.groups
            ),
            groups_replaced=len(replaced),
            train_s=trained - began,
            rollout_s=began - self._rollout_began,
            handover_s=time.monotonic() - trained,
        )
        await self._batches.step_done(batch.step, measured.model_dump(), before, after)
        self._status.update(policy_version=batch.step, reward_mean=measured.reward_mean)
        self._agent.report(EventKind.METRIC, measured.model_dump(), key=f"step {batch.step}")
        self._rollout_began = time.monotonic()
        await self._warn(batch.step)

    async def _warn(self, step: int) -> None:
        history = [await self._batches.step_metrics(number) for number in watched_steps(step)]
        # a replayed one has later ones
        known = [each for each in history if each is not None and each["step"] <= step]
        for data in advice(step, known) + step_alarms(step, known, self._config.grad_clip):
            log.warning("%s", data["reason"])
            self._agent.report(EventKind.EVENT, data, key=f"{data['name']} {step}")

    async def _update(self, batch: Batch) -> tuple[dict[str, Any], TokenValues, TokenValues]:
        config = await self._batches.config_at(batch.step)
        samples = await asyncio.to_thread(samples_with_signal, batch, config)
        if not samples:
            return dict.fromkeys(NOTHING_LEARNED, 0.0), {}, {}
        staleness = int(batch_statistics(batch, config)["staleness_max"])
        coef = entropy_coef_of(config, await self._batches.step_metrics(batch.step - 1))
        config = config.model_copy(update={"entropy_coef": coef})
        counted = await self._batches.step_metrics(batch.step) is not None
        async with self._engine.device_lent():
            done = await batch_train(self._trainer, config, samples, batch.step, staleness, counted)
        both = done.before_ST, done.after_ST
        before, after = [
            await asyncio.to_thread(by_answer, batch, samples, values_ST) for values_ST in both
        ]
        return done.metrics | dict(loss_settings(config)), before, after

    async def _refuse(self, batch: Batch, refusal: StepRefused) -> None:
        log.error("step %d refused: %s", batch.step, refusal)
        data = refusal_event(batch, refusal)
        self._agent.report(EventKind.EVENT, data, key=f"refused {data['batch']}")
        await self._batches.step_refused(batch.step, f"step_refused: {refusal}")


def refusal_event(batch: Batch, refusal: StepRefused) -> dict[str, Any]:
    """The event ``step_refused``. Of a mismatch with ``kl_engine``, which the server's alert of
    that name reads.
    """
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
    return data | ({"kl_engine": refusal.kl} if isinstance(refusal, EngineMismatch) else {})
