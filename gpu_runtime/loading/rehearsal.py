"""Engine and trainer prove on this model that they agree, before a session is ready and after each
restart.

The engine samples a few tokens and the trainer computes their log-probabilities: with the base
weights, after a hand-over of changed weights, and with the base weights put back bit for bit.
(Those of its state, where a session goes on from one that both have.) A gap beyond rounding is no
accident of one batch: the session fails with ``engine_trainer_mismatch``, and no restart is tried.

The change (``weights/flip.py``) moves each layer's output in another direction, so that a weight
which a hand-over forgets or names wrongly shows, and a second one restores each bit.

For Tinker clients (``rehearse_models``) the two compare the base, and an adapter on all of its
parts that is made for this, trained one large step, and gone afterwards: by the tokens that the
engine samples, and by its scores of the same tokens in a prompt. Snapshots of all weights are not
rehearsed.
"""

import asyncio
import json
import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpu_runtime.engine.replicas import Replicas
from gpu_runtime.errors import EngineTrainerMismatch, ModelUnsupported, WeightsRefused
from gpu_runtime.interfaces import Engine, SampleOrder, SamplerEngine, SamplingOptions, TokenSource
from gpu_runtime.loop.data import sample_data
from gpu_runtime.loop.logprob_mismatch import BOUNDS
from gpu_runtime.loop.sample import Sample
from gpu_runtime.model_interfaces import (
    AdamParams,
    Datum,
    InvalidTrainingInput,
    LoraConfig,
    ModelTrainer,
    Trainer,
    counted_of,
)
from tinkerscript.wire.training.losses import OLD
from tinkerscript.wire.training.model_refusals import window_reached

log = logging.getLogger(__name__)

ANSWER = 8  # sampled tokens of each probe
# In bfloat16 rounding is as large as what one stale weight does. More tokens are compared; where
# the hand-over made the gap larger by this factor, the stale weight is looked for: undoing its
# change takes this part of the gap away.
ANSWER_ROUNDED = 32
GREW, EXPLAINED = 1.25, 0.3
PROMPT = 40  # tokens of a probe's prompt where no window asks for more
BRANCHES = (17, 31, 43, 59)  # where the prompts part

DIFFERENT = (
    "The two compute this model differently: of its configuration likely {fields}. The trainer's "
    "numbers equal the"
    " model's own forward, so it is the engine's that differ."
)
STALE = (
    "They agreed before: the engine keeps old weights, or takes some under another name. Likely "
    "layers that it fuses or"
    " packs: {layers}."
)

MODEL, RANK = "rehearsal", 8  # of an adapter
LEARNING_RATE = 0.02  # one step moves every entry of B by this: log-probabilities move by tenths
ADAPTER_DIFFERS = (
    "They agree on the base: the engine takes an adapter's "
    "layers under other names, or computes otherwise."
)
PROMPT_DIFFERS = (
    "They agree on the same tokens as they are sampled: the engine scores a prompt otherwise, or "
    "under another adapter."
)


async def rehearse(
    engine: Engine,
    trainer: Trainer,
    model: Path,
    handover: Path,
    weights: str = "the base weights",
) -> None:
    """Raises EngineTrainerMismatch. Both have the same ``weights``, before and after.

    While the engine has others, or may have, nothing else may be sampled.
    """
    engines = Replicas.of(engine)
    rehearsal = _Rehearsal(engines, trainer, _fields(model))
    # What the trainer does alone it does beside the engine's sampling, or its taking of weights.
    base, usual = await asyncio.gather(
        trainer.weights_digest(), rehearsal.compare(f"with {weights}", DIFFERENT, as_trained=True)
    )
    await trainer.flip_weights()
    await trainer.publish(handover)
    async with engines.alone():
        await _take(engines, handover)
        try:
            await rehearsal.compare("after a hand-over of changed weights", STALE, usual=usual)
        finally:
            await trainer.flip_weights()
        await trainer.publish(handover)
        now, _ = await asyncio.gather(trainer.weights_digest(), _take(engines, handover))
        if now != base:
            raise EngineTrainerMismatch(
                f"{weights} were not put back bit for bit after the rehearsal"
            )
        await rehearsal.compare(f"with {weights} put back", STALE)


@dataclass(frozen=True)
class _Rehearsal:
    engine: Replicas
    trainer: Trainer
    fields: dict[str, Any]

    async def compare(
        self, when: str, why: str, *, as_trained: bool = False, usual: float | None = None
    ) -> float:
        """The KL. Raises EngineTrainerMismatch. ``as_trained``: by the pass that a step makes,
        gradient included.

        ``usual`` is the KL of rounding alone: of much more than that the one weight that explains
        it is looked for.
        """
        is_rounded = self.trainer.dtype != "float32"
        answer = ANSWER_ROUNDED if is_rounded else ANSWER
        prompts = probe_prompts(self.fields, self.engine.context_length, answer)
        # All prompts at once: a decoding step of a few sequences takes as long as that of one.
        samples_of = [
            await asyncio.gather(*(sample(part, prompt, answer) for prompt in prompts))
            for part in self.engine.parts
        ]
        stale: str | None = None
        async with self.engine.device_lent():
            gaps = [await self._gap(samples, as_trained=as_trained) for samples in samples_of]
            # of the engine that differs most
            gap = next((gap for gap in gaps if math.isnan(gap)), max(gaps))
            if is_rounded and usual is not None and gap > GREW * usual:
                stale = await self._stale(samples_of[gaps.index(gap)])
        _note(gap, when)
        if stale is not None:
            raise EngineTrainerMismatch(
                f"engine and trainer differ {when}: a KL of {gap:.2g}, and {usual:.2g} before it. "
                "The engine"
                f" computes as if {stale} had its old weights"
            )
        cause = why.format(fields=_special(self.fields), layers=_layers(self.fields))
        _agree(gap, self.trainer.dtype, when, cause)
        return gap

    async def _gap(self, samples: Sequence[Sample], *, as_trained: bool) -> float:
        """The KL of an engine's samples."""
        data = sample_data(samples, [1.0] * len(samples))
        if as_trained:
            passed = await self.trainer.forward_backward(data, "cross_entropy", {})
            await self.trainer.drop_gradient()
            return passed.metrics["kl_engine"]
        now = counted_of(data, await self.trainer.logprobs(data))
        return _kl(np.array(_sampled(data)), np.array(now))

    async def _stale(self, samples: Sequence[Sample]) -> str | None:
        """The weight or module whose old weights explain the gap best, if they explain enough of
        it.
        """
        data = sample_data(samples)
        now = counted_of(data, await self.trainer.logprobs(data))
        return stale_of(_sampled(data), now, await self.trainer.each_unflipped(data))


def _sampled(data: Sequence[Datum]) -> list[float]:
    """The engine's log-probabilities of the tokens that it sampled."""
    return counted_of(data, [each.loss_inputs[OLD] for each in data])


def stale_of(
    engine: Sequence[float], now: Sequence[float], unflipped: Mapping[str, Sequence[float]]
) -> str | None:
    """Of ``unflipped`` (by weight) the one that the engine's log-probabilities are much nearer to
    than to ``now``.

    Without a stale weight each is farther away: by what that weight changes.
    """
    apart = {name: _squares(engine, each) for name, each in unflipped.items()}
    name = min(apart, key=lambda name: apart[name])
    return name if apart[name] < (1 - EXPLAINED) * _squares(engine, now) else None


def _squares(ours: Sequence[float], others: Sequence[float]) -> float:
    return math.fsum((a - b) ** 2 for a, b in zip(ours, others, strict=True))


async def sample(engine: TokenSource, prompt: Sequence[int], answer: int = ANSWER) -> Sample:
    """What the engine samples after ``prompt``, with its log-probabilities, as a sample without an
    advantage.
    """
    options = SamplingOptions(
        max_tokens=answer, temperature=1.0, seed=1, ignore_eos=answer > ANSWER
    )
    call = f"rehearsal-{len(prompt)}-{prompt[-1]}"  # prompts of one length end differently
    deltas = [delta async for delta in engine.generate(call, prompt, options)]
    ids = tuple(token for delta in deltas for token in delta.token_ids_T)
    logprobs = tuple(logprob for delta in deltas for logprob in delta.logprobs_T)
    before = len(prompt)
    return Sample(
        (*prompt, *ids), (0,) * before + (1,) * len(ids), (0.0,) * before + logprobs, advantage=0.0
    )


async def _take(engine: Engine, handover: Path) -> None:
    try:
        await engine.load_weights(handover, engine.version)
    except WeightsRefused as refusal:
        raise EngineTrainerMismatch(
            f"the engine does not take the trainer's weights: {refusal}"
        ) from refusal


async def rehearse_models(
    engine: SamplerEngine, trainer: ModelTrainer, model: Path, folder: Path
) -> None:
    """Raises EngineTrainerMismatch, ModelUnsupported. ``folder`` takes the adapter, for as long as
    the engine lives.
    """
    fields = _fields(model)
    prompts, why = (
        probe_prompts(fields, engine.context_length),
        DIFFERENT.format(fields=_special(fields)),
    )
    try:
        await trainer.create_model(MODEL, LoraConfig(rank=RANK))
        try:
            data = await _compare_models(
                engine, trainer, prompts, None, "with the base weights", why
            )
            adapter = trainer.model(MODEL)
            await adapter.forward_backward(data, "cross_entropy", {})
            await adapter.optim_step(AdamParams(learning_rate=LEARNING_RATE))
            await adapter.publish(folder)
            await _compare_models(
                engine, trainer, prompts, folder, "with an adapter", ADAPTER_DIFFERS
            )
        finally:
            await trainer.unload(MODEL)
    except InvalidTrainingInput as refused:
        raise ModelUnsupported(
            f"an adapter of rank {RANK} cannot be trained on this model: {refused}"
        ) from refused


async def _compare_models(
    engine: SamplerEngine,
    trainer: ModelTrainer,
    prompts: list[tuple[int, ...]],
    adapter: Path | None,
    when: str,
    why: str,
) -> list[Datum]:
    """What the engine sampled, as data that train it. Raises EngineTrainerMismatch."""
    orders = [
        SampleOrder(
            prompt, SamplingOptions(max_tokens=ANSWER, seed=1, ignore_eos=True), folder=adapter
        )
        for prompt in prompts
    ]
    answers = [result.answers[0] for result in await asyncio.gather(*map(engine.sample, orders))]
    data = []
    for prompt, answer in zip(prompts, answers, strict=True):
        ids = np.array((*prompt, *answer.token_ids_T))
        weights = np.zeros(len(ids) - 1, np.float32)
        weights[len(prompt) - 1 :] = 1.0
        data.append(Datum(ids[:-1], {"target_tokens": ids[1:], "weights": weights}))
    result = await trainer.model(MODEL).forward(data, "cross_entropy", {})
    found = [
        output["logprobs"][-len(answer.logprobs_T) :]
        for output, answer in zip(result.outputs, answers, strict=True)
    ]
    _models_agree([answer.logprobs_T for answer in answers], found, trainer.dtype, when, why)
    # of the same tokens, but the last: as a prompt they leave room for one more
    found = [scores[:-1] for scores in found]
    for scored in await _scored_again(
        engine, [datum.token_ids_N.tolist() for datum in data], adapter
    ):
        last = [scores[-len(own) :] for scores, own in zip(scored, found, strict=True)]
        _models_agree(
            last, found, trainer.dtype, f"in the scores of a prompt {when}", PROMPT_DIFFERS
        )
    return data


async def _scored_again(
    engine: SamplerEngine, sequences: Sequence[Sequence[int]], adapter: Path | None
) -> list[list[list[float]]]:
    """The engine's scores of each sequence as a prompt, and those of its tokens by name."""
    orders = [
        SampleOrder(
            tuple(ids),
            SamplingOptions(max_tokens=1, seed=1, prompt_logprobs=0),
            prompt_targets_R=tuple((token,) for token in ids[1:]),
            folder=adapter,
        )
        for ids in sequences
    ]
    outcomes = await asyncio.gather(*map(engine.sample, orders))
    of_prompt = [
        [scores[token] for scores, token in zip(each.prompt_logprobs_P[1:], ids[1:], strict=True)]
        for each, ids in zip(outcomes, sequences, strict=True)
    ]
    return [of_prompt, [[scores[0] for scores in each.prompt_targets_R] for each in outcomes]]


def _models_agree(
    engine: Sequence[Sequence[float]],
    trainer: Sequence[np.ndarray[Any, Any]],
    dtype: str,
    when: str,
    why: str,
) -> None:
    """Raises EngineTrainerMismatch."""
    _note(kl := _kl(np.concatenate(engine), np.concatenate(trainer)), when)
    _agree(kl, dtype, when, why)


def _note(kl: float, when: str) -> None:
    log.info("rehearsal %s: engine and trainer differ by a KL of %.2g", when, kl)


def _agree(kl: float, dtype: str, when: str, why: str) -> None:
    """Raises EngineTrainerMismatch for a KL that rounding does not explain."""
    bound = BOUNDS[dtype]
    if not kl <= bound:  # NaN is a gap too
        raise EngineTrainerMismatch(
            f"engine and trainer differ {when}: a KL of {kl:.2g}, and rounding explains {bound:g}. "
            f"{why}"
        )


def _kl(engine_T: np.ndarray[Any, Any], trainer_T: np.ndarray[Any, Any]) -> float:
    """Mean k3 estimate of KL(engine || trainer): exp(d) - 1 - d, d = trainer - engine."""
    gap_T = trainer_T.astype(np.float64) - engine_T
    return float((np.expm1(gap_T) - gap_T).mean())


def probe_prompts(
    fields: dict[str, Any], context_length: int, answer: int = ANSWER
) -> list[tuple[int, ...]]:
    """Prompts that share all but their last tokens, with the model's special tokens; and longer
    than its window ones.

    The window is one that contexts of this length go beyond: nothing of a longer one can be seen.
    """
    vocabulary, window = fields.get("vocab_size", 64), window_reached(fields, context_length)
    longest = context_length - answer
    lengths = {min(PROMPT, longest)} | ({min(window + ANSWER, longest)} if window else set())
    special = [
        token
        for name in ("bos_token_id", "eos_token_id", "pad_token_id")
        for token in _ids(fields.get(name))
    ]
    body = [(position * 7919 + 11) % vocabulary for position in range(max(lengths))]
    body[: len(special)] = special
    return [
        (*body[: length - 2], branch % vocabulary, (branch + 5) % vocabulary)
        for length in sorted(lengths)
        for branch in BRANCHES
    ]


def _fields(model: Path) -> dict[str, Any]:
    whole = json.loads((model / "config.json").read_text())
    return whole | whole.get("text_config", {})


def _ids(value: Any) -> list[int]:
    return (
        [value]
        if isinstance(value, int)
        else [token for token in value or [] if isinstance(token, int)]
    )


def _special(fields: dict[str, Any]) -> str:
    words = "window|softcap|scal|multiplier|rope|layer_types|chunk|sink|mamba|linear|conv|expert"
    found = [name for name, value in fields.items() if value and re.search(words, name)]
    return ", ".join(found) or "none of the fields that are known to matter"


def _layers(fields: dict[str, Any]) -> str:
    tied = ["the head, which is tied to the embedding"] if fields.get("tie_word_embeddings") else []
    experts = ["experts"] if any("expert" in name for name in fields) else []
    return ", ".join([*experts, *tied, "attention projections", "gate and up projections"])
