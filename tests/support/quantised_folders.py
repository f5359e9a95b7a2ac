"""Tiny random models whose folders are quantised as published ones are."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from support.model_families import family_make

FP8 = {"quant_method": "fp8", "weight_block_size": [32, 32], "modules_to_not_convert": ["lm_head"]}
MXFP4 = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
PACKED = {
    "quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"], "format": "pack-quantized",
            "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True},
        }
    },
}  # fmt: skip


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


def int4_make(folder: Path) -> Path:
    """Each matrix of a layer in four bits, as compressed-tensors packs them."""
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

    packed, draw = {}, torch.Generator().manual_seed(1)
    for name, it in load_file(family_make(folder, "Qwen3") / "model.safetensors").items():
        if it.ndim == 2 and "proj" in name:
            numbers = torch.randint(-8, 8, it.shape, dtype=torch.int8, generator=draw)
            packed[f"{name}_packed"] = pack_to_int32(numbers, 4)
            packed[f"{name}_scale"] = (
                torch.rand((it.shape[0], it.shape[1] // 32), generator=draw).to(torch.bfloat16) / 20
            )
            packed[f"{name}_shape"] = torch.tensor(it.shape)
    return quantised_make(folder, PACKED, packed)
