"""A quantised folder is the plain folder of the weights that it packs, as transformers computes
them."""

import json
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from gpu_runtime.training.policy import Policy
from gpu_runtime.weights.dequantise import DequantiseError, folder_dequantise, fp8_in_full, in_full
from support.model_families import family_make
from support.quantised_folders import compressed_make, fp8_make, mxfp4_make
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.model_refusals import folder_refusal, quantised_plan
from tinkerscript.wire.training.models.quantised import weight_shapes

CONFIG = SessionConfig(max_context_length=128)


def own(folder: Path) -> dict[str, Tensor]:
    """The weights as transformers loads the quantised folder, in full."""
    from transformers import (
        AutoModelForCausalLM,
        CompressedTensorsConfig,
        FineGrainedFP8Config,
        Mxfp4Config,
    )

    found = json.loads((folder / "config.json").read_text())["quantization_config"]
    kind = {"fp8": FineGrainedFP8Config, "mxfp4": Mxfp4Config}.get(
        found["quant_method"], CompressedTensorsConfig
    )
    options = {name: value for name, value in found.items() if name != "quant_method"}
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, quantization_config=kind(**options, dequantize=True)
    )
    return dict(model.named_parameters())


@pytest.mark.filterwarnings("ignore")  # of the packages of quantisation
@pytest.mark.parametrize(
    "make",
    [
        fp8_make,
        mxfp4_make,
        *(partial(compressed_make, scheme=each) for each in ("W4A16_ASYM", "W8A8", "FP8_DYNAMIC")),
    ],
)
def test_the_weights_are_those_that_transformers_computes_and_the_rest_stays(
    tmp_path: Path, make
) -> None:
    folder, target = make(tmp_path / "quantised-FP8"), tmp_path / "target"
    (folder / "tokenizer.json").write_text("{}")
    assert folder_refusal(folder, CONFIG) is None
    assert "computed in bfloat16 once" in (quantised_plan(folder) or "")
    target.mkdir()
    folder_dequantise(folder, target)
    assert quantised_plan(target) is None and (target / "tokenizer.json").exists()
    config = json.loads((target / "config.json").read_text())
    assert "quantization_config" not in config and config["dtype"] == "bfloat16"
    before, after = load_file(folder / "model.safetensors"), load_file(target / "model.safetensors")
    assert {it.dtype for it in after.values()} == {torch.bfloat16}
    shared = {name for name in before.keys() & after.keys() if "_proj" not in name}
    assert shared and all(torch.equal(before[name], after[name]) for name in shared)
    shapes = {name: tuple(it.shape) for name, it in after.items()}
    assert weight_shapes(folder) == weight_shapes(target) == shapes
    plain = dict(Policy.load(str(target), torch.bfloat16).model.named_parameters())
    expected = own(folder)
    assert all(torch.equal(it, expected[name]) for name, it in plain.items())


def test_experts_in_fp8_are_in_full_by_their_own_names(tmp_path: Path) -> None:
    folder = fp8_make(tmp_path / "quantised", "Qwen3-MoE")
    with in_full(folder) as plain:
        assert plain != folder
        again = load_file(plain / "model.safetensors")
    assert not plain.exists()
    tensors = load_file(folder / "model.safetensors")
    name = next(each for each in tensors if each.endswith("experts.3.down_proj.weight"))
    scale = tensors[f"{name}_scale_inv"].repeat_interleave(32, 0).repeat_interleave(32, 1)
    assert torch.equal(again[name], (tensors[name].float() * scale).to(torch.bfloat16))
    with in_full(family_make(tmp_path / "plain", "Qwen3")) as same:
        assert same == tmp_path / "plain"


def test_a_block_that_is_cut_off_and_a_single_scale_are_multiplied() -> None:
    packed = torch.ones(192, 130, dtype=torch.float8_e4m3fn)
    full = fp8_in_full(packed, torch.tensor([[1.0, 2.0], [4.0, 8.0]]), [128, 128])
    assert full.shape == packed.shape
    assert [full[row, at].item() for row in (127, 128) for at in (127, 128)] == [1, 2, 4, 8]
    assert fp8_in_full(packed, torch.tensor(3.0)).unique().tolist() == [3]
    with pytest.raises(ValueError, match="no 5 blocks"):
        fp8_in_full(packed, torch.ones(5, 2))


def test_a_packed_tensor_without_its_scale_is_named(tmp_path: Path) -> None:
    folder = fp8_make(tmp_path / "quantised")
    tensors = load_file(folder / "model.safetensors")
    lost = next(each for each in tensors if each.endswith("up_proj.weight_scale_inv"))
    del tensors[lost]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DequantiseError, match=f"has {lost.removesuffix('_scale_inv')} of type F8"):
        folder_dequantise(folder, tmp_path)


def test_a_folder_whose_layers_rotate_is_refused_by_the_field(tmp_path: Path) -> None:
    folder = compressed_make(tmp_path / "Small-W4A16")
    fields = json.loads((folder / "config.json").read_text())
    fields["quantization_config"]["transform_config"] = {"config_groups": {"R1": {}}}
    (folder / "config.json").write_text(json.dumps(fields))
    refusal = folder_refusal(folder, CONFIG) or ""
    assert "transform_config" in refusal and "take the unquantised folder" in refusal
    assert refusal.endswith(", Small")
