"""The rehearsal passes where engine and trainer agree, leaves no bit changed, and names what is
broken where it is.
"""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.errors import EngineTrainerMismatch, ModelUnsupported, WeightsRefused
from gpu_runtime.loading.rehearsal import PROMPT, probe_prompts, rehearse
from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.ranks import TrainerRanks
from support.published_weights import published_weights
from support.rank_steps import gradient, logprobs, optim_step
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

CONFIG = SessionConfig(max_context_length=128, learning_rate=1e-3)
SAMPLES = [Sample((5, 9, 30, 41, 7), (0, 0, 1, 1, 1), (0.0, 0.0, -4.5, -4.5, -4.5), advantage=1.0)]


class StaleEngine:
    """A real engine whose reload forgets the weights."""

    def __init__(self, engine: VllmEngine, refusal: WeightsRefused | None = None) -> None:
        self._engine, self._refusal = engine, refusal

    def __getattr__(self, name: str):
        return getattr(self._engine, name)

    async def load_weights(self, folder: Path, version: int) -> None:
        if self._refusal:
            raise self._refusal


def attentive(model: Path) -> Path:
    """The model with queries and keys ten times as large: fresh ones are so small that positions
    hardly matter.
    """
    file = model / "model.safetensors"
    tensors = load_file(file)
    for name in tensors:
        if "q_proj" in name or "k_proj" in name:
            tensors[name] *= 10
    save_file(tensors, file, metadata={"format": "pt"})
    return model


async def weights(trainer: TrainerRanks, folder: Path) -> dict[str, torch.Tensor]:
    await trainer.publish(folder)
    return {name: tensor.clone() for name, tensor in published_weights(folder).items()}


@pytest.mark.engine
@pytest.mark.timeout(400)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_real_engine_and_trainer_rehearse_and_each_broken_part_is_named(
    tmp_path: Path,
) -> None:
    model = attentive(tiny_model_make(tmp_path / "model"))
    trainer, rehearsed = (TrainerRanks(str(model), CONFIG, "cpu") for _ in range(2))
    other = tmp_path / "other"  # the same weights under another rotation of positions
    shutil.copytree(model, other)
    fields = json.loads((other / "config.json").read_text())
    fields["rope_parameters"] = {"rope_theta": 50.0, "rope_type": "default"}
    (other / "config.json").write_text(json.dumps(fields))
    turned = TrainerRanks(str(other), CONFIG, "cpu")
    engine = await VllmEngine.start(EngineSpec(str(model), CONFIG, "cpu"))
    try:
        await rehearse(engine, rehearsed, model, tmp_path / "handover")
        for each in (trainer, rehearsed):
            await gradient(each, SAMPLES)
            await optim_step(each, 1)
        plain, after = (
            await weights(trainer, tmp_path / "a"),
            await weights(rehearsed, tmp_path / "b"),
        )
        assert all(torch.equal(plain[name], after[name]) for name in plain), (
            "it left no trace in any bit"
        )

        with pytest.raises(EngineTrainerMismatch, match="with the base weights: .*rope_parameters"):
            await rehearse(engine, turned, other, tmp_path / "handover")
        unstepped = TrainerRanks(str(model), CONFIG, "cpu")
        try:
            with pytest.raises(
                EngineTrainerMismatch,
                match=r"after a hand-over of changed weights.*keeps old weights.*tied",
            ):
                await rehearse(StaleEngine(engine), unstepped, model, tmp_path / "handover")
        finally:
            await unstepped.close()
        unstepped = TrainerRanks(str(model), CONFIG, "cpu")
        try:
            with pytest.raises(
                EngineTrainerMismatch, match=r"does not take the trainer's weights: .*experts"
            ):
                refusing = StaleEngine(engine, WeightsRefused("refused: KeyError: mlp.experts"))
                await rehearse(refusing, unstepped, model, tmp_path / "handover")
        finally:
            await unstepped.close()
        (other / "config.json").write_text(
            json.dumps(fields | {"architectures": ["Doubled"], "model_type": "doubled"})
        )
        with pytest.raises(ModelUnsupported, match="(?s)vLLM does not take this model: .*doubled"):
            await VllmEngine.start(EngineSpec(str(other), CONFIG, "cpu"))
    finally:
        await engine.close()
        for each in (trainer, rehearsed, turned):
            await each.close()


def test_probes_are_longer_than_the_window_hold_special_tokens_and_fit_the_context() -> None:
    fields = {"vocab_size": 90, "sliding_window": 64, "bos_token_id": 0, "eos_token_id": [1, 2]}
    prompts = probe_prompts(fields, 128)
    assert {len(prompt) for prompt in prompts} == {PROMPT, 72}, (
        "rotary factors may depend on the length"
    )
    for length in (PROMPT, 72):
        first, *others = (prompt for prompt in prompts if len(prompt) == length)
        assert {0, 1, 2} <= {*first} and all(token < 90 for token in first)
        assert others and all(other[:-2] == first[:-2] and other != first for other in others)
    assert max(len(prompt) for prompt in probe_prompts(fields, 70)) == 62
    assert {len(prompt) for prompt in probe_prompts(fields, 24)} == {16}


def test_a_window_that_is_off_or_is_never_reached_asks_for_no_long_probe() -> None:
    """Qwen2.5 has 32,768 in its folder and leaves it off; Phi-3 of 128k has twice its longest
    context.
    """
    off = {"vocab_size": 90, "sliding_window": 32_768, "use_sliding_window": False}
    assert {len(prompt) for prompt in probe_prompts(off, 40_000)} == {PROMPT}
    assert {len(prompt) for prompt in probe_prompts({"sliding_window": 262_144}, 131_072)} == {
        PROMPT
    }
    assert (
        max(len(prompt) for prompt in probe_prompts(off | {"use_sliding_window": True}, 40_000))
        > 32_768
    )


@pytest.mark.engine
@pytest.mark.parametrize(
    "options",
    [
        {"trainer_ranks": 2},
        {"dtype": "bfloat16"},
        {"trainer_ranks": 2, "zero_stage": 3},
        pytest.param({"lora_rank": 2}, marks=pytest.mark.nightly),
    ],
)
async def test_flipped_weights_come_back_to_the_same_bits(tmp_path: Path, options: dict) -> None:
    """Also the small ones that ZeRO 3 keeps whole once they were computed with."""
    trainer = TrainerRanks(
        str(tiny_model_make(tmp_path / "model")), SessionConfig(**options), "cpu"
    )
    try:
        base = await weights(trainer, tmp_path / "base")
        digest = await trainer.weights_digest()
        scores = await logprobs(trainer, SAMPLES)
        await trainer.flip_weights()
        assert await trainer.weights_digest() != digest
        flipped = await weights(trainer, tmp_path / "flipped")
        assert not any(torch.equal(flipped[name], base[name]) for name in base)
        assert await logprobs(trainer, SAMPLES) != scores
        await trainer.flip_weights()
        assert await trainer.weights_digest() == digest
        assert await logprobs(trainer, SAMPLES) == scores
        again = await weights(trainer, tmp_path / "again")
        assert all(torch.equal(again[name], base[name]) for name in base)
    finally:
        await trainer.close()
