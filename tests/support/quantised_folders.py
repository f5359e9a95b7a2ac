"""Tiny random models whose folders are quantised as published ones are."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from support.model_families import family_make

FP8 = {"quant_method": "fp8", "weight_block_size": [32, 32], "modules_to_not_convert": ["lm_head"]}
MXFP4 = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}


def quantised_make(folder: Path, found: dict, packed: dict[str, Tensor]) -> Path:
    """The folder with ``packed`` in the place of weights of the same stem, and ``found`` told."""
    path = folder / "model.safetensors"
    tensors = {name: it.to(torch.bfloat16) for name, it in load_file(path).items()}
    for name in [each for each in tensors if any(f"{each}_" in other for other in packed)]:
        del tensors[name]
    save_file(tensors | packed, path, metadata={"format": "pt"})
    fields = json.loads((folder / "config.json").read_text())
    fields |= {"quantization_config": found, "dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(fields))
    return folder


def fp8_make(folder: Path, family: str = "Qwen3") -> Path:
    """Each matrix of a layer in FP8 with a scale for each block of 32 by 32."""
    tensors, packed = load_file(family_make(folder, family) / "model.safetensors"), {}
    for name, it in tensors.items():
        if it.ndim == 2 and "proj" in name:
            grid = it.unflatten(0, (-1, 32)).unflatten(-1, (-1, 32)).abs().amax((1, 3)) / 448
            whole = grid.repeat_interleave(32, 0).repeat_interleave(32, 1)
            packed[name] = (it / whole).to(torch.float8_e4m3fn)
            packed[f"{name}_scale_inv"] = grid
            packed[name.replace(".weight", ".activation_scale")] = torch.ones(1)
    return quantised_make(folder, FP8, packed)


def mxfp4_make(folder: Path) -> Path:
    """GPT-OSS with its experts in four bits and an exponent for each 32 of them."""
    packed, draw = {}, torch.Generator().manual_seed(1)
    for name, it in load_file(family_make(folder, "GPT-OSS") / "model.safetensors").items():
        if name.endswith("_proj"):
            experts, width, rows = it.shape
            packed[f"{name}_blocks"] = torch.randint(
                0, 256, (experts, rows, width // 32, 16), dtype=torch.uint8, generator=draw
            )
            packed[f"{name}_scales"] = torch.randint(
                118, 126, (experts, rows, width // 32), dtype=torch.uint8, generator=draw
            )
    return quantised_make(folder, MXFP4, packed)


def compressed_make(folder: Path, scheme: str = "W4A16") -> Path:
    """Qwen3 as compressed-tensors itself packs and saves it: ``scheme`` is a name of its presets,
    in groups of 32 numbers."""
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import (
        QuantizationConfig,
        apply_quantization_config,
        preset_name_to_scheme,
    )
    from compressed_tensors.quantization.utils import calculate_qparams
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(family_make(folder, "Qwen3"), dtype=torch.bfloat16)
    told = preset_name_to_scheme(scheme, ["Linear"])
    told.weights.group_size = told.weights.group_size and 32
    config = QuantizationConfig(config_groups={"group_0": told}, ignore=["lm_head"])
    apply_quantization_config(model, config)
    for module in model.modules():
        if hasattr(module, "weight_scale"):
            groups = module.weight.detach().unflatten(1, (module.weight_scale.shape[1], -1))
            found = calculate_qparams(groups.amin(-1), groups.amax(-1), told.weights)
            module.weight_scale.data, module.weight_zero_point.data = found
    packer = ModelCompressor.from_pretrained_model(model)
    packer.compress_model(model)
    model.save_pretrained(folder)
    packer.update_config(str(folder))
    return folder
