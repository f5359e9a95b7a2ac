"""An export of a folder with a tower is served as it was trained, with the tower of its base."""

from dataclasses import replace
from pathlib import Path

import pytest

from gpu_runtime.engine.arguments import EngineSpec
from gpu_runtime.engine.vllm_engine import VllmEngine
from gpu_runtime.loading.rehearsal import probe_prompts, sample
from gpu_runtime.training.ranks import TrainerRanks
from support.family_checks import drawn_samples, weights_bits
from support.family_outcomes import GAP
from support.model_families import VOCABULARY, WINDOW, family_make
from support.rank_steps import gradient, logprobs, optim_step
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

CONFIG = SessionConfig(max_context_length=128, learning_rate=1e-3)
TOWER = ("visual.", "vision_tower.", "multi_modal_projector.")


@pytest.mark.engine
@pytest.mark.timeout(400)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["Gemma 3 with images", "Mistral 3", "Qwen2.5-VL", "Qwen3-VL"])
async def test_an_engine_serves_the_export_as_it_was_trained_and_the_tower_is_the_bases(
    tmp_path: Path, name: str
) -> None:
    base, out = family_make(tiny_model_make(tmp_path / "base"), name), tmp_path / "out"
    trainer = TrainerRanks(str(base), CONFIG, "cpu")
    try:
        await trainer.ready()
        drawn = drawn_samples(2 * WINDOW, WINDOW)
        own = await logprobs(trainer, drawn)
        samples = [
            replace(each, logprobs_T=tuple(logprobs))
            for each, logprobs in zip(drawn, own, strict=True)
        ]
        await gradient(trainer, samples)
        await optim_step(trainer, 1)
        await trainer.export_model(out)
        before, after = weights_bits(base), weights_bits(out)
        beside = {key for key in before if any(part in key for part in TOWER)}
        assert before.keys() == after.keys()
        assert beside and all(after[key] == before[key] for key in beside)
        assert all(after[key] != before[key] for key in before.keys() - beside)
        engine = await VllmEngine.start(EngineSpec(str(out), CONFIG, "cpu"))
        try:
            answers = [
                await sample(engine, prompt)
                for prompt in probe_prompts({"vocab_size": VOCABULARY}, engine.context_length)
            ]
        finally:
            await engine.close()
        for answer, found in zip(answers, await logprobs(trainer, answers), strict=True):
            pairs = zip(answer.logprobs_T, found, answer.mask_T, strict=True)
            assert all(abs(theirs - ours) < GAP for theirs, ours, trained in pairs if trained)
    finally:
        await trainer.close()
