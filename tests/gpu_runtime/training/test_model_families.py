"""Every family of docs/models.md is computed as its own forward does, with its gradient, or refused
by the field.
"""

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from gpu_runtime.errors import ModelUnsupported
from gpu_runtime.training.lora import handed_over
from gpu_runtime.training.model_check import policy_verify
from gpu_runtime.training.models.stored_names import stored_parts
from gpu_runtime.training.policy import Policy
from gpu_runtime.training.rows.packing import RowKind
from support.family_checks import drawn_samples, family_gaps
from support.family_outcomes import measured
from support.model_families import MIXTURES, PLAIN, REFUSED, TOWERS, TRAINED, WINDOW, family_make
from support.tiny_model import tiny_model_make
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.model_refusals import folder_refusal
from tinkerscript.wire.training.models.proven import PROVEN

CPU = torch.device("cpu")
CONFIG = SessionConfig(max_context_length=128)
TABLE = Path(__file__).resolve().parents[3] / "docs" / "models.md"


@pytest.mark.system
@pytest.mark.parametrize("name", [*TRAINED, *MIXTURES])
def test_log_probabilities_and_gradient_are_those_of_the_models_own_forward(tmp_path, name):
    folder = family_make(tmp_path, name)
    assert folder_refusal(folder, CONFIG) is None
    gap, gradient_gap = family_gaps(folder, drawn_samples(2 * WINDOW, WINDOW), CONFIG, CPU)
    assert gap < 1e-4
    assert gradient_gap < 1e-4


def test_the_types_that_are_called_proven_are_those_of_the_page() -> None:
    import transformers

    classes = {
        name: kind for name, (kind, *_) in (TRAINED | MIXTURES | PLAIN | TOWERS | REFUSED).items()
    }
    assert {
        getattr(transformers, classes[name]).model_type
        for name, row in measured().items()
        if row.startswith(("agree", "rehearsal held"))
    } == PROVEN


def test_windows_in_some_layers_of_qwen2_are_refused_and_in_all_or_none_are_not(tmp_path):
    """vLLM's code of Qwen2 ends itself on a folder that has windows in some of its layers."""
    folder = family_make(tmp_path, "Qwen2 with windows")
    assert re.search("max_window_layers is 1 .* use_sliding_window", folder_refusal(folder, CONFIG))
    fields = json.loads((folder / "config.json").read_text())
    for other in (
        {"use_sliding_window": False},
        {"max_window_layers": 0},
        {"max_window_layers": 2},
    ):
        (folder / "config.json").write_text(json.dumps(fields | other))
        assert folder_refusal(folder, CONFIG) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"rope_scaling": {"type": "longrope"}, "original_max_position_embeddings": 64},
        {"rope_parameters": {"rope_type": "longrope", "original_max_position_embeddings": 64}},
    ],
)
def test_longrope_is_refused_beyond_the_length_at_which_its_factors_change(tmp_path, fields):
    """vLLM takes the long factors for all rows of such a context, transformers for the rows that
    are longer.
    """
    (tmp_path / "config.json").write_text(json.dumps(fields | {"max_position_embeddings": 4096}))
    assert "set max_context_length to 64" in folder_refusal(tmp_path, CONFIG)
    assert folder_refusal(tmp_path, SessionConfig(max_context_length=64)) is None


@pytest.mark.parametrize(
    ("name", "found", "plain"),
    [
        ("Qwen2.5-7B-Instruct-GPTQ-Int4", {"quant_method": "gptq"}, "model, Qwen2.5-7B-Instruct"),
        ("Llama-3-8B-bnb-4bit", {"quant_method": "bitsandbytes"}, "model, Llama-3-8B"),
        ("Mine-8B", {"quant_method": "awq"}, "folder of the same model"),
        (
            "Mine-8B-quantized.w4a16",
            {"quant_method": "compressed-tensors", "format": "marlin-24"},
            "model, Mine-8B",
        ),
    ],
)
def test_a_folder_that_nothing_computes_in_full_is_refused_with_the_name_of_the_one_to_take(
    tmp_path, name, found, plain
):
    folder = tmp_path / name
    folder.mkdir()
    told = {"quantization_config": found}
    for fields in (told, {"text_config": told}):
        (folder / "config.json").write_text(json.dumps(fields))
        refusal = folder_refusal(folder, CONFIG) or ""
        assert f"quantization_config is {found['quant_method']}" in refusal
        assert refusal.endswith(plain)


@pytest.mark.parametrize("name", MIXTURES)
def test_experts_are_handed_over_as_the_folder_has_them_and_from_the_trainers_memory(
    tmp_path, name
):
    """transformers joins the experts of a layer in one tensor, which no engine knows."""
    policy = Policy.load(str(family_make(tmp_path, name)), torch.float32)
    parts = list(stored_parts(policy.model, handed_over(policy.model)))
    found = {name: it for part in parts for name, it in part.tensors().items()}
    stored = load_file(tmp_path / "model.safetensors")
    assert found.keys() == stored.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in stored.items())
    memories = {it.untyped_storage().data_ptr() for it in policy.state_dict().values()}
    assert {it.untyped_storage().data_ptr() for it in found.values()} <= memories
    shapes = {name: shape for part in parts for name, shape in part.shapes.items()}
    assert shapes == {name: tuple(it.shape) for name, it in stored.items()}


@pytest.mark.parametrize(
    "fields",
    [
        {"ffn_config": {"moe_num_experts": 4}},  # DBRX
        {"num_experts": [1, 8, 8]},  # Hunyuan, layer by layer
        {"text_config": {"num_local_experts": 16}},  # Llama 4
        {"n_routed_experts": 64},  # DeepSeek, GLM-4 MoE
    ],
)
def test_a_mixture_of_experts_is_not_refused_by_its_fields(tmp_path, fields):
    (tmp_path / "config.json").write_text(json.dumps(fields))
    assert folder_refusal(tmp_path, CONFIG) is None


def test_attention_with_sinks_is_computed_whole(tmp_path):
    """GPT-OSS has attention sinks, which no tree has."""
    policy = Policy.load(str(family_make(tmp_path, "GPT-OSS")), torch.float32)
    policy_verify(policy, CONFIG, CPU)
    assert policy.kind is RowKind.PADDED and "s_aux" in policy.apart


@pytest.mark.parametrize(
    "fields",
    [
        {"model_type": "doubled"},
        {
            "model_type": "doubled",
            "auto_map": {"AutoConfig": "doubled.C", "AutoModelForCausalLM": "doubled.M"},
        },
    ],
)
def test_a_model_without_code_in_the_library_is_refused_and_the_code_of_its_folder_is_not_run(
    tmp_path, fields
):
    folder = family_make(tmp_path, "Llama")
    (folder / "doubled.py").write_text("raise AssertionError('it was run')\n")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | fields))
    with pytest.raises(
        ModelUnsupported, match="transformers does not load this model: .*(doubled|custom code)"
    ):
        Policy.load(str(folder), torch.float32)


def test_a_model_with_fewer_positions_than_the_session_wants_is_refused(tmp_path):
    refusal = folder_refusal(family_make(tmp_path, "Llama"), SessionConfig(max_context_length=512))
    assert "positions end at 256; lower the option" in refusal


def test_a_tokenizer_with_ids_that_the_head_lacks_is_refused(tmp_path):
    folder = tiny_model_make(tmp_path)
    assert folder_refusal(folder, CONFIG) is None
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["added_tokens"].append({"id": 98, "content": "<pad>", "special": True})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    refusal = folder_refusal(folder, CONFIG)
    assert "vocab_size is 98" in refusal and "tokens up to 98" in refusal and "resize" in refusal


def test_the_table_of_the_docs_names_every_family_and_what_becomes_of_it():
    rows: dict[str, str] = {}
    for line in TABLE.read_text().splitlines():
        if line.startswith("| "):
            rows.setdefault(line.split("|")[1].strip(), line)  # a later table has what was measured
    for name in [*TRAINED, *MIXTURES]:
        assert "trained" in rows[name]
    for name in PLAIN:
        assert "whole timelines" in rows[name]
    for name in TOWERS:
        assert "text side" in rows[name]
    for name in REFUSED:
        assert "refused" in rows[name]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tensors: tensors.pop("model.layers.1.mlp.up_proj.weight"), "lack 1 weights.*up_proj"),
        (
            lambda tensors: tensors.update({"model.norm.weight": torch.ones(63)}),
            r"model.norm.weight of shape \[63\], and its config.json makes it \[64\]",
        ),
    ],
)  # fmt: skip
def test_weights_that_the_library_would_fill_with_noise_are_named(tmp_path, change, words):
    folder = family_make(tmp_path, "Llama")
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelUnsupported, match=words):
        Policy.load(str(folder), torch.float32)


@pytest.mark.parametrize("name", [*TRAINED, *MIXTURES, *PLAIN, *TOWERS])
def test_the_parts_of_every_family_fit_one_another(tmp_path, name):
    assert folder_refusal(family_make(tmp_path, name), CONFIG) is None
