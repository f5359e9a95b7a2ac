"""Mixtures of experts: what leaves the trainer is what came, and ranks take one step."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from gpu_runtime.errors import ModelUnsupported
from gpu_runtime.loop.sample import Sample
from gpu_runtime.training.lora import stored_buffers
from gpu_runtime.training.models.expert_adapters import expert_weights
from gpu_runtime.training.models.export import full_weights, hugging_face_export
from gpu_runtime.training.models.routing import Routing, routers_freeze
from gpu_runtime.training.policy import Policy
from gpu_runtime.training.ranks import TrainerRanks
from support.model_families import MIXTURES, family_make
from support.published_weights import published_weights
from support.rank_batches import batch
from support.rank_steps import gradient, optim_step
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.models.mixtures import mixture_of, mixture_refusal

CORRECTED = "GLM-4.5"  # its router corrects scores by a buffer


def stored(folder: Path) -> dict[str, torch.Tensor]:
    return {
        name: it for path in folder.glob("*.safetensors") for name, it in load_file(path).items()
    }


@pytest.mark.parametrize("name", [*MIXTURES, "GPT-OSS", "Gemma 4", "Apertus"])
def test_an_export_has_the_names_and_the_bits_of_the_folder_and_loads_whole(tmp_path, name) -> None:
    """Also what is no parameter: a router's correction, a layer's scale."""
    base, out = family_make(tmp_path / "base", name), tmp_path / "out"
    policy = Policy.load(str(base), torch.float32)
    hugging_face_export(policy.model, full_weights(policy.model, {}, None), str(base), out)
    before, after = stored(base), stored(out)
    assert before.keys() == after.keys()
    assert all(torch.equal(after[key], tensor) for key, tensor in before.items())
    _, found = AutoModelForCausalLM.from_pretrained(
        out, dtype=torch.float32, output_loading_info=True
    )
    assert not found["missing_keys"] and not found["unexpected_keys"]


def test_what_a_router_corrects_by_keeps_its_type_in_bfloat16(tmp_path) -> None:
    base, out = family_make(tmp_path / "base", CORRECTED), tmp_path / "out"
    policy = Policy.load(str(base), torch.bfloat16)
    (kept,) = (name for name, _ in stored_buffers(policy.model))
    hugging_face_export(policy.model, full_weights(policy.model, {}, None), str(base), out)
    before, after = stored(base), stored(out)
    assert after[kept].dtype == torch.float32 and torch.equal(after[kept], before[kept])
    assert {it.dtype for key, it in after.items() if key != kept} == {torch.bfloat16}


@pytest.mark.parametrize("name", [*MIXTURES, "GPT-OSS", "Qwen3", "Llama 4", "Nemotron-H"])
def test_the_weights_that_compute_a_token_are_counted_by_the_folder(tmp_path, name) -> None:
    folder = family_make(tmp_path, name)
    found = mixture_of(folder)
    model = Policy.load(str(folder), torch.float32).model
    assert (
        (found is not None)
        == bool(expert_weights(model))
        == (name in MIXTURES or name == "GPT-OSS")
    )
    if found is not None:
        experts = {key: it.numel() for key, it in model.named_parameters() if ".experts." in key}
        sizes = [tensor.numel() for tensor in stored(folder).values()]
        assert (found.count, found.chosen, found.parameters) == (4, 2, sum(sizes))
        assert found.active == found.parameters - sum(experts.values()) // 2
        assert "compute a token (2 of 4 experts a layer)" in found.words


def test_a_layer_with_another_number_of_experts_is_counted_by_the_largest(tmp_path) -> None:
    fields = {"num_experts": [1, 8, 8], "num_experts_per_tok": 2}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    assert mixture_of(tmp_path) is None  # no weights
    assert mixture_of(tmp_path / "absent") is None


@pytest.mark.parametrize("name", ["Qwen3-MoE", CORRECTED, "GPT-OSS"])
def test_what_routers_chose_is_measured_as_the_models_own_forward_has_it(tmp_path, name) -> None:
    model = Policy.load(str(family_make(tmp_path, name)), torch.float32).model
    model.set_attn_implementation("eager")
    ids = torch.arange(5, 45)[None]
    routing = Routing(model)
    model(ids)  # before it counts
    routing.begin()
    own = model(ids, output_router_logits=True).router_logits
    found = routing.measured(1)
    assert routing.measured(1) == found
    entropies = [torch.distributions.Categorical(logits=each).entropy() for each in own]
    assert found["router_entropy"] == pytest.approx(torch.cat(entropies).mean().item(), rel=1e-5)
    assert 1.0 <= found["expert_load"] <= 2.0  # two of four experts for each token
    if name == "Qwen3-MoE":
        chosen = [each.topk(2).indices.flatten().bincount(minlength=4) for each in own]
        loads = [counts.max().item() / 20 for counts in chosen]
        assert found["expert_load"] == pytest.approx(sum(loads) / len(loads))
    assert Routing(torch.nn.Linear(2, 2)).measured(1) == {}


def test_a_frozen_router_stays_as_the_base_has_it_and_all_else_is_trained(tmp_path) -> None:
    model = Policy.load(str(family_make(tmp_path / "mixture", "Qwen3-MoE")), torch.float32).model
    routers_freeze(model)
    frozen = {name for name, weight in model.named_parameters() if not weight.requires_grad}
    assert frozen == {f"model.layers.{number}.mlp.gate.weight" for number in range(2)}
    config = SessionConfig(max_context_length=128, router="frozen")
    assert mixture_refusal(tmp_path / "mixture", config) is None
    dense = family_make(tmp_path / "dense", "Llama")
    assert "router is frozen, and this model has no experts" in (
        mixture_refusal(dense, config) or ""
    )
    with pytest.raises(ModelUnsupported, match="router is frozen"):
        routers_freeze(Policy.load(str(dense), torch.float32).model)
    with pytest.raises(ValidationError, match="only with lora_rank 0"):
        SessionConfig(router="frozen", lora_rank=2, lora_targets="attention")


def recorded(sample: Sample, layers: int) -> tuple[bytes | None, ...]:
    """Two of four experts of each layer for each trained token, by the tokens before it alone."""
    return tuple(
        bytes(random.Random(str(sample.token_ids_T[:at])).sample(range(4), 2) * layers)
        if trained
        else None
        for at, trained in enumerate(sample.mask_T)
    )


async def steps(trainer: TrainerRanks, first: int, last: int, layers: int) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for step in range(first, last + 1):
        samples = [replace(each, experts_T=recorded(each, layers)) for each in batch(step)]
        metrics = await gradient(trainer, samples)
        metrics |= await optim_step(trainer, step)
    return metrics


@pytest.mark.engine
@pytest.mark.timeout(600)
async def test_ranks_and_stages_take_one_step_of_a_mixture_and_a_resumed_one_has_its_bits(
    tmp_path,
) -> None:
    model = str(family_make(tmp_path / "model", CORRECTED))
    of: dict[int, tuple[dict[str, float], dict[str, torch.Tensor]]] = {}
    for ranks, stage in ((1, 2), (2, 3)):
        folder = tmp_path / str(ranks)
        config = SessionConfig(
            learning_rate=1e-3, micro_batch_tokens=64, max_context_length=128, trainer_ranks=ranks,
            zero_stage=stage,
        )  # fmt: skip
        trainer = TrainerRanks(model, config, "cpu")
        try:
            metrics = await steps(trainer, 1, 2, 1)
            assert 1.0 <= metrics["expert_load"] <= 2.0 and metrics["router_entropy"] > 0
            assert 0.2 < metrics["routing_differs"] < 0.8
            await trainer.save_state(folder / "state")
            await trainer.publish(folder / "two")
            of[ranks] = metrics, published_weights(folder / "two")
            await trainer.export_model(folder / "model")
            await steps(trainer, 3, 3, 1)
            await trainer.publish(folder / "three")
            unkilled = published_weights(folder / "three")
        finally:
            await trainer.close()
        exported = stored(folder / "model")
        assert exported.keys() == of[ranks][1].keys() == stored(Path(model)).keys()
        assert all(torch.equal(exported[name], it) for name, it in of[ranks][1].items())
        resumed = TrainerRanks(model, config, "cpu")
        try:
            await resumed.load_state(folder / "state")
            await steps(resumed, 3, 3, 1)
            await resumed.publish(folder / "again")
            again = published_weights(folder / "again")
        finally:
            await resumed.close()
        assert all(torch.equal(unkilled[name], again[name]) for name in unkilled)
    (one, weights), (two, others) = of[1], of[2]
    assert math.isclose(one["grad_norm"], two["grad_norm"], rel_tol=1e-4)
    for name, tensor in weights.items():
        torch.testing.assert_close(others[name], tensor, rtol=0, atol=2e-5)


@pytest.mark.engine
@pytest.mark.timeout(600)
async def test_ranks_and_stages_take_one_step_of_adapters_on_experts(tmp_path) -> None:
    model = str(family_make(tmp_path / "model", "Qwen3-MoE"))
    of: dict[int, tuple[dict[str, float], dict[str, torch.Tensor]]] = {}
    for ranks, stage in ((1, 2), (2, 3)):
        folder = tmp_path / str(ranks)
        config = SessionConfig(
            learning_rate=1e-3, micro_batch_tokens=64, max_context_length=128, trainer_ranks=ranks,
            zero_stage=stage, lora_rank=3,
        )  # fmt: skip
        trainer = TrainerRanks(model, config, "cpu")
        try:
            metrics = await steps(trainer, 1, 2, 2)
            await trainer.save_state(folder / "state")
            await trainer.export_model(folder / "model")
            of[ranks] = metrics, stored(folder / "model")
            await steps(trainer, 3, 3, 2)
            await trainer.publish(folder / "three")
            unkilled = published_weights(folder / "three")
        finally:
            await trainer.close()
        resumed = TrainerRanks(model, config, "cpu")
        try:
            await resumed.load_state(folder / "state")
            await steps(resumed, 3, 3, 2)
            await resumed.publish(folder / "again")
            again = published_weights(folder / "again")
        finally:
            await resumed.close()
        assert all(torch.equal(unkilled[name], again[name]) for name in unkilled)
    (one, weights), (two, others) = of[1], of[2]
    before = stored(Path(model))
    moved = {name for name, it in weights.items() if not torch.equal(it, before[name])}
    assert any(".experts." in name for name in moved) and not any(
        ".gate." in name for name in moved
    )
    assert math.isclose(one["grad_norm"], two["grad_norm"], rel_tol=1e-4)
    for name, tensor in weights.items():
        torch.testing.assert_close(others[name], tensor, rtol=0, atol=2e-5)
