"""Folders with a vision tower: the text side trains, and what is beside it leaves as it came."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from gpu_runtime.model_interfaces import LoraConfig
from gpu_runtime.training.model_check import policy_verify
from gpu_runtime.training.models import towers
from gpu_runtime.training.models.adapters import Adapters
from gpu_runtime.training.models.export import full_weights, hugging_face_export
from gpu_runtime.training.models.towers import auto_class, frozen_names
from gpu_runtime.training.policy import Policy
from support.family_checks import drawn_samples, family_gaps, weights_bits
from support.model_families import TOWERS, WINDOW, family_make
from support.tiny_model import tiny_model_make
from tinkerscript.exporting.verify import folder_verify
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.models.model_proof import FROZEN

CPU = torch.device("cpu")
CONFIG = SessionConfig(max_context_length=128)
NAMES = ["Gemma 3 with images", "Qwen3.5 with images"]


@pytest.mark.system
@pytest.mark.parametrize("name", TOWERS)
def test_the_text_side_has_the_numbers_and_the_gradient_of_the_models_own_forward(
    tmp_path, name
) -> None:
    gap, gradient_gap = family_gaps(
        family_make(tmp_path, name), drawn_samples(2 * WINDOW, WINDOW), CONFIG, CPU
    )
    assert gap < 1e-4
    assert gradient_gap < 1e-4


def folder_make(folder, name):
    """In bfloat16, with a weight that transformers does not load and the files of a processor."""
    family_make(folder, name)
    tensors = load_file(folder / "model.safetensors")
    tensors = {key: tensor.to(torch.bfloat16) for key, tensor in tensors.items()}
    tensors["mtp.fc.weight"] = torch.arange(6, dtype=torch.bfloat16)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    for file in (
        "preprocessor_config.json",
        "video_preprocessor_config.json",
        "processor_config.json",
    ):
        (folder / file).write_text(json.dumps({"of": file}))
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_every_byte_of_the_tower_is_in_the_export_and_the_text_side_is_the_trained_one(
    tmp_path, name
) -> None:
    base, out = folder_make(tmp_path / "base", name), tmp_path / "out"
    policy = Policy.load(str(base), torch.float32)
    tower = frozen_names(policy.model)
    trained = {key for key, weight in policy.model.named_parameters() if weight.requires_grad}
    assert tower and trained and not tower & trained
    with torch.no_grad():
        # a frozen one too, as a rehearsal leaves it in a trainer that was killed
        for weight in policy.parameters():
            weight.add_(0.5)
    hugging_face_export(policy.model, full_weights(policy.model, {}, None), str(base), out)
    before, after = weights_bits(base), weights_bits(out)
    assert set(before) == set(after)
    beside = {
        key for key in before if not any(part in key for part in ("language_model", "lm_head"))
    }
    assert "mtp.fc.weight" in beside and len(beside) == len(tower) + 1
    assert all(after[key] == before[key] for key in beside)
    assert all(after[key] != before[key] for key in set(before) - beside)
    for file in base.glob("*processor_config.json"):
        assert (out / file.name).read_bytes() == file.read_bytes()
    again, found = auto_class(policy.model.config).from_pretrained(
        out, dtype=torch.float32, output_loading_info=True
    )
    assert not found["missing_keys"]
    weights = dict(again.named_parameters())
    assert all(torch.equal(weights[key], policy.model.get_parameter(key)) for key in trained)


def test_a_base_that_lacks_a_weight_of_its_tower_is_named(tmp_path) -> None:
    base = folder_make(tmp_path / "base", NAMES[0])
    policy = Policy.load(str(base), torch.float32)
    tensors = load_file(base / "model.safetensors")
    lost = next(key for key in tensors if "vision" in key)
    save_file(
        {key: it for key, it in tensors.items() if key != lost},
        base / "model.safetensors",
        {"format": "pt"},
    )
    with pytest.raises(ValueError, match=lost):
        hugging_face_export(
            policy.model, full_weights(policy.model, {}, None), str(base), tmp_path / "out"
        )


def test_an_adapter_is_on_the_text_side_alone(tmp_path) -> None:
    policy = Policy.load(str(family_make(tmp_path, NAMES[0])), torch.float32)
    policy_verify(policy, CONFIG, CPU)
    names = Adapters(policy.model).add("m0", LoraConfig(rank=2), "m0")
    assert names and all("language_model" in name or "lm_head" in name for name in names)


def test_a_head_that_the_base_has_a_second_time_leaves_as_the_trained_one(tmp_path) -> None:
    """Loaders that find both do not tie them."""
    base, out = folder_make(tmp_path / "base", NAMES[0]), tmp_path / "out"
    tensors = load_file(base / "model.safetensors")
    (embedding,) = (key for key in tensors if "embed_tokens" in key)
    tensors["lm_head.weight"] = tensors[embedding].clone()
    save_file(tensors, base / "model.safetensors", metadata={"format": "pt"})
    policy = Policy.load(str(base), torch.float32)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.add_(0.5)
    hugging_face_export(policy.model, full_weights(policy.model, {}, None), str(base), out)
    assert set(weights_bits(base)) - set(weights_bits(out)) == {"lm_head.weight"}
    again = auto_class(policy.model.config).from_pretrained(out, dtype=torch.float32)
    trained = policy.model.get_output_embeddings().weight
    assert torch.equal(again.get_output_embeddings().weight, trained)


def test_a_byte_of_the_tower_that_is_written_otherwise_ends_the_export(
    tmp_path, monkeypatch
) -> None:
    base = folder_make(tmp_path / "base", NAMES[0])
    policy = Policy.load(str(base), torch.float32)

    def written_otherwise(tensors, path, metadata) -> None:
        save_file(tensors, path, metadata=metadata)
        whole = bytearray(path.read_bytes())
        whole[-1] ^= 1
        path.write_bytes(whole)

    monkeypatch.setattr(towers, "save_file", written_otherwise)
    with pytest.raises(OSError, match=f"{FROZEN} has other bytes of .*vision"):
        hugging_face_export(
            policy.model, full_weights(policy.model, {}, None), str(base), tmp_path / "out"
        )


def test_a_byte_of_the_tower_that_changes_later_is_named_by_verify(tmp_path) -> None:
    base, out = tiny_model_make(tmp_path / "base"), tmp_path / "out"
    folder_make(base, NAMES[0])
    policy = Policy.load(str(base), torch.float32)
    hugging_face_export(policy.model, full_weights(policy.model, {}, None), str(base), out)
    assert not any(check.problem for check in folder_verify(out))
    whole = bytearray((out / FROZEN).read_bytes())
    whole[-1] ^= 1
    (out / FROZEN).write_bytes(whole)
    assert [check.name for check in folder_verify(out) if check.problem] == [f"file {FROZEN}"]
