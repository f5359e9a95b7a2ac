"""Adapters on the joined experts of a mixture: what is added to each expert, in the trainer, in what
leaves it, in peft and in vLLM.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from gpu_runtime.model_interfaces import LoraConfig
from gpu_runtime.training.lora import (
    ADAPTER_PREFIX,
    ADAPTER_WEIGHTS,
    adapter_export,
    adapter_weights,
    adapters_add,
    adapters_off,
    plain_weights,
)
from gpu_runtime.training.models import adapters
from gpu_runtime.training.models.expert_adapters import expert_weights
from gpu_runtime.training.models.export import full_weights, hugging_face_export
from gpu_runtime.training.policy import Policy
from support.model_families import MIXTURES, family_make
from tinkerscript.wire.config import SessionConfig

RANK = 3
CONFIG = SessionConfig(max_context_length=128, lora_rank=RANK, lora_alpha=12)
FAMILIES = [*MIXTURES, "GPT-OSS", "Llama 4 MoE", "Nemotron-H MoE"]
IDS = torch.arange(5, 45)[None]


def loaded(folder: Path) -> Any:
    model = Policy.load(str(folder), torch.float32).model
    model.set_attn_implementation("eager")
    return model


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(IDS, use_cache=False).logits


def fill(model: Any) -> None:
    """B begins at zero: an adapter that was trained."""
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if ".lora_" in name:
            torch.nn.init.normal_(parameter, std=0.1)


@pytest.mark.parametrize("name", FAMILIES)
def test_each_expert_is_the_base_and_its_own_product_and_all_else_is_frozen(tmp_path, name) -> None:
    folder = family_make(tmp_path / "base", name)
    model, merged = loaded(folder), loaded(folder)
    base, joined = logits(model), expert_weights(model)
    names = {key for key, _ in model.named_parameters()}
    model.requires_grad_(False)
    part = "mlp" if name == "Nemotron-H MoE" else "all-linear"  # peft refuses its state space
    adapters_add(model, CONFIG.model_copy(update={"lora_targets": part}))
    assert joined and all(it.dim() == 3 for it in joined.values())
    torch.testing.assert_close(logits(model), base, rtol=0, atol=1e-5)  # B is zero
    fill(model)
    trained = {key for key, it in model.named_parameters() if it.requires_grad}
    assert all(".lora_" in key and "gate.lora" not in key for key in trained)
    found = {key: make() for key, _, make in plain_weights(model)}
    assert found.keys() == names
    changed = {key for key, it in merged.named_parameters() if not torch.equal(found[key], it)}
    assert set(joined) <= changed
    merged.load_state_dict(found, strict=False)
    torch.testing.assert_close(logits(model), logits(merged), rtol=0, atol=1e-3)
    assert (logits(model) - base).abs().max() > 0.05
    with adapters_off(model):
        torch.testing.assert_close(logits(model), base, rtol=0, atol=1e-5)
    model(IDS, use_cache=False).logits.logsumexp(-1).sum().backward()
    without = {key for key, it in model.named_parameters() if it.requires_grad and it.grad is None}
    assert not without


@pytest.mark.parametrize("name", ["Qwen3-MoE", "GPT-OSS", "GLM-4.5"])
def test_peft_loads_the_adapter_that_a_session_exports(tmp_path, name) -> None:
    folder = family_make(tmp_path / "base", name)
    model = loaded(folder)
    adapters_add(model, CONFIG)
    fill(model)
    weights = {key: it.detach() for key, (it,), _ in adapter_weights(model)}
    adapter_export(model, weights, RANK, 12, str(folder), tmp_path / "adapter")
    own = AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32
    )
    again = PeftModel.from_pretrained(own, tmp_path / "adapter")
    torch.testing.assert_close(logits(again), logits(model), rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["Qwen3-MoE", "GPT-OSS"])
def test_models_of_a_client_have_experts_of_their_own_and_merge(tmp_path, name) -> None:
    folder = family_make(tmp_path / "base", name)
    model = loaded(folder).requires_grad_(False)
    base, lora = logits(model), LoraConfig(rank=RANK)
    asked = adapters.adapters_bytes(model, [lora])
    on_it = adapters.Adapters(model)
    one = on_it.add("m0", lora, "one")
    assert asked == 4 * 5 * sum(it.numel() for it in one.values())
    on_it.add("m1", LoraConfig(rank=2, train_mlp=False), "two")
    on_it.select("m0")
    fill(model)
    of_one = logits(model)
    adapter_export(model, dict(one), RANK, adapters.ALPHA, str(folder), tmp_path / "adapter")
    merged = full_weights(model, one, lora)
    on_it.select("m1")
    assert (logits(model) - of_one).abs().max() > 0.05
    on_it.remove("m1")
    on_it.remove("m0")
    torch.testing.assert_close(logits(model), base, rtol=0, atol=1e-5)
    gone = full_weights(loaded(folder), one, lora)  # of a model without its adapter's places
    assert gone.keys() == merged.keys()
    assert all(torch.equal(gone[key], it) for key, it in merged.items())
    hugging_face_export(loaded(folder), merged, str(folder), tmp_path / "merged")
    torch.testing.assert_close(logits(loaded(tmp_path / "merged")), of_one, rtol=0, atol=1e-3)


@pytest.mark.engine
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["Qwen3-MoE", "GPT-OSS"])
def test_vllm_reads_an_experts_part_of_the_folder_as_the_trainer_adds_it(tmp_path, name) -> None:
    """By vLLM's own code for a GPU: w1, w2 and w3 of each expert."""
    from vllm.lora.model_manager import LoRAModelManager

    folder = family_make(tmp_path / "base", name)
    model = loaded(folder).requires_grad_(False)
    lora = LoraConfig(rank=RANK)
    weights = adapters.Adapters(model).add("m0", lora, "one")
    fill(model)
    adapter_export(model, dict(weights), RANK, adapters.ALPHA, str(folder), tmp_path / "adapter")
    read = load_file(tmp_path / "adapter" / ADAPTER_WEIGHTS)
    layer = next(key for key in expert_weights(model)).rpartition(".")[0]
    part = lambda key, letter: read[f"{ADAPTER_PREFIX}{key}.lora_{letter}.weight"]  # noqa: E731
    entries: dict[str, Any] = {
        key: SimpleNamespace(lora_a=part(key, "A"), lora_b=part(key, "B"))
        for key in (layer, f"{layer}.base_layer")
    }
    manager: Any = SimpleNamespace(
        _get_lora_layer_weights=lambda of, key: of.loras.get(key),
        model=SimpleNamespace(config=SimpleNamespace(architectures=[type(model).__name__])),
    )
    module: Any = SimpleNamespace(local_num_experts=4, global_num_experts=4, ep_rank=0)
    LoRAModelManager._convert_3d_to_2d_moe_lora(  # noqa: SLF001 - vLLM's own
        manager, SimpleNamespace(loras=entries), module, layer
    )
    a, b = entries[layer].lora_a, entries[layer].lora_b
    w1, w2, w3 = (
        torch.einsum("eor,eri->eoi", b[i], a[i]) * adapters.ALPHA / RANK for i in range(3)
    )
    merged = full_weights(model, weights, lora)
    base = {key.replace(".base_layer", ""): it for key, it in model.named_parameters()}
    gate_up = merged[f"{layer}.gate_up_proj"] - base[f"{layer}.gate_up_proj"]
    down = merged[f"{layer}.down_proj"] - base[f"{layer}.down_proj"]
    if name == "GPT-OSS":
        gate_up, down = gate_up.transpose(1, 2), down.transpose(1, 2)
        expected = gate_up[:, ::2], down, gate_up[:, 1::2]
    else:
        expected = (*gate_up.chunk(2, dim=1)[:1], down, gate_up.chunk(2, dim=1)[1])
    for one, other in zip((w1, w2, w3), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
