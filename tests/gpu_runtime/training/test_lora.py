"""LoRA on the real trainer: only adapters learn, merged weights leave, a resumed run ends with the
same bits.
"""

import json
import random

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.ranks import TrainerRanks
from support.published_weights import published_weights
from support.rank_steps import gradient, optim_step
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig

pytestmark = pytest.mark.engine
RANK = 3
PARTS = {
    "attention": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "mlp": ("gate_proj", "up_proj", "down_proj"),
}


def batch(seed: int) -> list[Sample]:
    rng = random.Random(seed)
    samples = []
    for group in range(2):
        prompt = [rng.randrange(2, 90) for _ in range(10)]
        for _ in range(4):
            ids = prompt + [rng.randrange(2, 90) for _ in range(5)]
            mask, logprobs = (0,) * 10 + (1,) * 5, (0.0,) * 10 + (-4.5,) * 5
            samples.append(Sample(tuple(ids), mask, logprobs, rng.uniform(-1, 1), group=group))
    return samples


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_model_make(tmp_path_factory.mktemp("tiny"))


def config(**changes) -> SessionConfig:
    defaults = {
        "lora_rank": RANK,
        "lora_alpha": 12,
        "learning_rate": 5e-3,
        "micro_batch_tokens": 64,
        "seed": 3,
    }
    return SessionConfig(**(defaults | changes))


async def steps(trainer: TrainerRanks, first: int, last: int) -> dict[str, float]:
    metrics = {}
    for step in range(first, last + 1):
        metrics = await gradient(trainer, batch(step))
        metrics |= await optim_step(trainer, step)
    return metrics


async def weights(trainer: TrainerRanks, folder):
    await trainer.publish(folder)
    return published_weights(folder)


def logprobs(folder, samples: list[Sample], adapter=None) -> torch.Tensor:
    """Of the trained tokens, by plain transformers, and by peft where an adapter is given."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    if adapter is not None:
        model = PeftModel.from_pretrained(model, adapter)
    found = []
    with torch.no_grad():
        for sample in samples:
            logits_TV = model(torch.tensor([sample.token_ids_T])).logits[0]
            own = torch.log_softmax(logits_TV, -1)[:-1].gather(
                1, torch.tensor(sample.token_ids_T)[1:, None]
            )[:, 0]
            found.append(own[torch.tensor(sample.mask_T[1:]) == 1])
    return torch.cat(found)


@pytest.mark.parametrize(("part", "stage"), [("attention", 2), ("mlp", 3)])
async def test_targets_change_by_a_matrix_of_the_rank_and_nothing_else_changes(
    model, tmp_path, part, stage
):
    trainer = TrainerRanks(str(model), config(lora_targets=part, zero_stage=stage), "cpu")
    try:
        before = await weights(trainer, tmp_path / "before")
        await steps(trainer, 1, 2)
        after = await weights(trainer, tmp_path / "after")
    finally:
        await trainer.close()
    base = load_file(model / "model.safetensors")
    assert before.keys() == after.keys() == base.keys(), (
        "the engine is given the base model's names"
    )
    for name, tensor in base.items():
        assert torch.equal(before[name], tensor), "a new adapter changes nothing"
        change = after[name] - tensor
        if name.split(".")[-2] in PARTS[part]:
            assert torch.linalg.matrix_rank(change, rtol=1e-4) == RANK
        else:
            assert not change.any(), name


async def test_both_folders_are_the_policy_that_was_trained_and_the_reference_is_the_base(
    model, tmp_path
):
    trainer = TrainerRanks(str(model), config(kl_coef=0.5, loss="cross_entropy"), "cpu")
    try:
        await steps(trainer, 1, 2)
        await trainer.export_model(tmp_path / "model")
        samples = [
            Sample(s.token_ids_T, s.mask_T, s.logprobs_T, advantage=0.0, group=s.group)
            for s in batch(9)
        ]
        metrics = await gradient(trainer, samples)
    finally:
        await trainer.close()
    now, base = logprobs(tmp_path / "model", samples), logprobs(model, samples)
    torch.testing.assert_close(
        logprobs(model, samples, tmp_path / "model" / "adapter"), now, rtol=0, atol=1e-5
    )
    told = json.loads((tmp_path / "model" / "adapter" / "adapter_config.json").read_text())
    assert told["base_model_name_or_path"] == model.name, "not where it lies here"
    assert metrics["entropy"] == pytest.approx(-now.mean().item(), rel=1e-5)
    kl = (torch.exp(base - now) - 1 - (base - now)).mean().item()
    assert kl > 1e-4, "the policy has moved"
    assert metrics["loss"] == pytest.approx(0.5 * kl, rel=1e-3)


@pytest.mark.parametrize(("ranks", "stage"), [(1, 3), (2, 2)])
async def test_stages_and_ranks_train_the_same_adapters_and_a_state_resumes_them_to_the_bit(
    model, tmp_path, ranks, stage
):
    options = {"trainer_ranks": ranks, "zero_stage": stage, "kl_coef": 0.1}
    one = TrainerRanks(str(model), config(kl_coef=0.1, zero_stage=1), "cpu")
    trainer = TrainerRanks(str(model), config(**options), "cpu")
    try:
        expected_metrics = await steps(one, 1, 3)
        expected = await weights(one, tmp_path / "one")
        await steps(trainer, 1, 2)
        await trainer.save_state(tmp_path / "state")
        metrics = await steps(trainer, 3, 3)
        measured = await weights(trainer, tmp_path / "measured")
    finally:
        await one.close()
        await trainer.close()
    for name in ("loss", "grad_norm"):
        assert metrics[name] == pytest.approx(expected_metrics[name], rel=1e-3), name
    for name, tensor in expected.items():
        torch.testing.assert_close(measured[name], tensor, rtol=0, atol=1e-4)
    size_bytes = sum(path.stat().st_size for path in (tmp_path / "state").rglob("*.pt"))
    adapters = sum(RANK * sum(t.shape) for name, t in expected.items() if "_proj" in name)
    assert size_bytes < 4 * 4 * adapters + ranks * 100_000, "a frozen base is no part of a state"
    resumed = TrainerRanks(str(model), config(**options), "cpu")
    try:
        await resumed.load_state(tmp_path / "state")
        await steps(resumed, 3, 3)
        again = await weights(resumed, tmp_path / "again")
    finally:
        await resumed.close()
    assert all(torch.equal(measured[name], again[name]) for name in measured)
