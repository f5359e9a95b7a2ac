"""The real trainer of many models and the real vLLM on a CPU: adapters are sampled from as they were trained."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu_runtime.engine.vllm_sampler import VllmSampler
from gpu_runtime.model_interfaces import AdamParams, Datum, LoraConfig
from gpu_runtime.sampler_interfaces import SampleOrder
from gpu_runtime.training.models.process import ModelTrainerProcess
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400), pytest.mark.filterwarnings("ignore::DeprecationWarning")]
PROMPT = (0, 40, 41, 42, 2, 50, 51, 60)


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[tuple[VllmSampler, ModelTrainerProcess]]:
    model, config = str(tiny_model_make(tmp_path / "model")), SessionConfig(max_context_length=256, lora_rank=32)
    trainer = ModelTrainerProcess(model, config, "cpu")
    try:
        engine = await VllmSampler.start(model, config, "cpu")
        try:
            await trainer.ready()
            yield engine, trainer
        finally:
            await engine.close()
    finally:
        await trainer.close()


def data(tokens: tuple[int, ...] = PROMPT) -> list[Datum]:
    ids = np.array(tokens)
    return [Datum(ids[:-1], {"target_tokens": ids[1:], "weights": np.ones(len(ids) - 1, np.float32)})]


async def scores(trainer: ModelTrainerProcess, model_id: str) -> np.ndarray:
    result = await trainer.forward(model_id, data(), "cross_entropy", {})
    return result.outputs[0]["logprobs"]


async def sampled(engine: VllmSampler, adapter: Path | None, **changes: Any) -> Any:
    order = SampleOrder(prompt_ids=PROMPT, max_tokens=8, prompt_top=0, adapter=adapter, seed=7)
    return await engine.sample(SampleOrder(**(vars(order) | changes)))


async def test_two_adapters_and_the_base_are_scored_as_the_trainer_scores_them(
    parts: tuple[VllmSampler, ModelTrainerProcess], tmp_path: Path
) -> None:
    engine, trainer = parts
    rest = {"train_unembed": False}
    await trainer.create_model("a", LoraConfig(rank=8, **rest))
    base = await scores(trainer, "a")
    await trainer.create_model("b", LoraConfig(rank=4, train_mlp=False, **rest))
    folders = {}
    for name in ("a", "b"):
        for _ in range(3):
            await trainer.forward_backward(name, data(), "cross_entropy", {})
            await trainer.optim_step(name, AdamParams(learning_rate=0.02))
        folders[name] = tmp_path / name
        await trainer.export_sampler(name, folders[name])
    wanted = {name: await scores(trainer, name) for name in folders}
    assert all(np.abs(wanted[name] - base).max() > 0.1 for name in folders), "training changed them"
    outcomes = await asyncio.gather(*(sampled(engine, adapter) for adapter in (None, folders["a"], folders["b"])))
    for outcome, expected in zip(outcomes, (base, wanted["a"], wanted["b"]), strict=True):
        assert outcome.prompt_logprobs_P[0] is None
        assert np.allclose(outcome.prompt_logprobs_P[1:], expected, atol=2e-3)
    # A later snapshot of one leaves the earlier as it was.
    await trainer.forward_backward("a", data(), "cross_entropy", {})
    await trainer.optim_step("a", AdamParams(learning_rate=0.05))
    await trainer.export_sampler("a", tmp_path / "a2")
    later = await sampled(engine, tmp_path / "a2")
    assert np.allclose(later.prompt_logprobs_P[1:], await scores(trainer, "a"), atol=2e-3)
    assert np.allclose((await sampled(engine, folders["a"])).prompt_logprobs_P[1:], wanted["a"], atol=2e-3)


async def test_an_adapter_of_all_parts_is_what_a_client_asks_for_by_default(
    parts: tuple[VllmSampler, ModelTrainerProcess], tmp_path: Path
) -> None:
    """``train_unembed`` too: an adapter of the layer that gives the logits."""
    engine, trainer = parts
    await trainer.create_model("c", LoraConfig(rank=8))
    for _ in range(3):
        await trainer.forward_backward("c", data(), "cross_entropy", {})
        await trainer.optim_step("c", AdamParams(learning_rate=0.02))
    await trainer.export_sampler("c", tmp_path / "c")
    outcome = await sampled(engine, tmp_path / "c")
    assert np.allclose(outcome.prompt_logprobs_P[1:], await scores(trainer, "c"), atol=2e-3)


async def test_samples_are_of_the_tempered_distribution_and_stops_are_in_them(
    parts: tuple[VllmSampler, ModelTrainerProcess],
) -> None:
    """log p_T(i) - log p_T(j) = (log p_1(i) - log p_1(j)) / T, over the ten likeliest tokens."""
    engine, _ = parts
    plain = (await sampled(engine, None, max_tokens=1, top_logprobs=10)).answers[0]
    hot = (await sampled(engine, None, max_tokens=1, top_logprobs=10, temperature=2.0)).answers[0]
    at_one, at_two = dict(plain.top_T[0]), dict(hot.top_T[0])
    both = sorted(at_one.keys() & at_two.keys())
    assert len(both) >= 5
    for token in both[1:]:
        gap = at_one[token] - at_one[both[0]]
        assert at_two[token] - at_two[both[0]] == pytest.approx(gap / 2, abs=1e-3)
    greedy = (await sampled(engine, None, temperature=0.0, ignore_end=True)).answers[0]
    third = greedy.token_ids_T[2]
    stopped = (await sampled(engine, None, temperature=0.0, ignore_end=True, stop_token_ids=(third,))).answers[0]
    assert stopped.is_stopped and stopped.token_ids_T[-1] == third and len(stopped.token_ids_T) <= 3
    several = await sampled(engine, None, num_samples=4, prompt_top=None)
    again = await sampled(engine, None, num_samples=4, prompt_top=None)
    assert len({answer.token_ids_T for answer in several.answers}) > 1
    assert [answer.token_ids_T for answer in several.answers] == [answer.token_ids_T for answer in again.answers]
