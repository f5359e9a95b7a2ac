"""Quantised folders by their files: which are computed in full before they are loaded, which are
refused, and what their weights are then; and the sizes of the weights of any folder.

``gpu_runtime.weights.dequantise`` writes the folder that is trained; its methods are METHODS here.
"""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .weight_files import Stored, json_read, weights_stored

# What transformers loads in full: blocks of FP8 (DeepSeek, Qwen, MiniMax), MXFP4 (GPT-OSS), and the
# forms of compressed-tensors.
METHODS = ("fp8", "mxfp4", "compressed-tensors")
FORMATS = (  # of compressed-tensors, those that need nothing but the weights
    "dense", "int-quantized", "float-quantized", "naive-quantized", "pack-quantized", "nvfp4-pack-quantized",
    "mxfp4-pack-quantized", "mxfp8-quantized", "mixed-precision",
)  # fmt: skip
# How names of quantised folders end: Qwen3-8B-FP8, Qwen2.5-7B-Instruct-GPTQ-Int4,
# Llama-3-8B-bnb-4bit.
QUANTISED_NAME = re.compile(
    r"([-_.](fp8|nvfp4|mxfp4|fp4|awq|gptq|bnb|int[48]|[48]bit|w\d+a\d+|dynamic|quantized|compressed))+$",
    re.IGNORECASE,
)
BLOCKS, SCALES, PACKED = "_blocks", "_scales", ".weight_packed"  # ends of names
# Of tensors beside a packed weight, which are no weights of the model.
BESIDE = re.compile(
    r"(_scale_inv|[._](weight|input|output|k|v|q)_scale|activation_scale|_proj_scale|_global_scale"
    r"|_zero_point|weight_shape|weight_g_idx)$"
)


def quantisation_of(whole: Mapping[str, Any]) -> dict[str, Any] | None:
    """What config.json has of it, at the places where engines look; None of a plain folder."""
    places = (whole, whole.get("text_config") or {})
    found = next(
        (each["quantization_config"] for each in places if each.get("quantization_config")),
        whole.get("compression_config"),
    )
    return found if isinstance(found, dict) else ({} if found else None)


def quantised_refusal(whole: Mapping[str, Any], folder: Path) -> str | None:
    """Why weights that are packed so are not trained, and which folder of the same model is not
    quantised, as names of such folders go; None of a folder that is plain or computed in full.
    """
    found = quantisation_of(whole)
    if found is None:
        return None
    method, form = found.get("quant_method"), found.get("format")
    sparse = (found.get("sparsity_config") or {}).get("format", "dense")
    is_known = method != "compressed-tensors" or (form in (None, *FORMATS) and sparse == "dense")
    rotated = found.get("transform_config")
    if method in METHODS and is_known and not rotated:
        return None
    origin = str(whole.get("_name_or_path") or folder.name)
    plain = QUANTISED_NAME.sub("", origin)
    which = f", {plain}" if plain != origin else ""
    words = f"is {method or 'set'}" + ("" if is_known else f" of format {form or sparse}")
    if method in METHODS and is_known:
        words = "has transform_config, rotations that its layers compute"
    return (
        f"quantization_config {words}: its weights are packed, and nothing here computes them "
        f"in full; take the unquantised folder of the same model{which}"
    )


def quantised_words(whole: Mapping[str, Any], count: int) -> str | None:
    """What a plan says of a quantised folder with ``count`` weights; None of a plain one."""
    found = quantisation_of(whole)
    if found is None:
        return None
    room = f" ({count * 2 / 1e9:.1f} GB on the runtime's volume)" if count else ""
    return (
        f"A quantised folder ({found.get('quant_method')}): its weights are computed in bfloat16 "
        f"once, before anything is loaded{room}. Those are trained and served, and exports are not "
        "quantised."
    )


def shapes_in_full(
    stored: Mapping[str, Stored], found: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of the weights that ``stored`` are packed of; ``found`` is the quantisation
    of config.json.
    """
    for name, it in stored.items():
        plain = name.removesuffix(BLOCKS)
        if plain != name and plain + SCALES in stored:  # [experts, out, in / 32, 16 bytes]
            experts, rows, groups, size = it.shape
            yield plain, (experts, groups * size * 2, rows)
        elif name.endswith(PACKED):
            each = 2 if it.dtype == "U8" else 32 // _bits(found)
            yield name.removesuffix("_packed"), (*it.shape[:-1], it.shape[-1] * each)
        elif not (BESIDE.search(name) or name.removesuffix(SCALES) + BLOCKS in stored):
            yield name, it.shape


def _bits(found: Mapping[str, Any]) -> int:
    groups = (found.get("config_groups") or {}).values()
    return next((group["weights"]["num_bits"] for group in groups if group.get("weights")), 4)


def weights_count(folder: Path) -> int:
    """The number of weights in a folder, from the headers of its safetensors files; 0 where there
    are none.
    """
    return sum(math.prod(shape) for shape in weight_shapes(folder).values())


def weight_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each weight by its name, from the headers of a folder's safetensors files; of a
    quantised folder those that it has in full.
    """
    stored = weights_stored(folder)
    found = quantisation_of(json_read(folder / "config.json")) if stored else None
    if found is None:
        return {name: it.shape for name, it in stored.items()}
    return dict(shapes_in_full(stored, found))
