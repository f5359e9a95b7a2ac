"""A model as a Hugging Face folder that transformers and vLLM load as it is."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from transformers import AutoTokenizer, GenerationConfig

from gpu_runtime.model_interfaces import LoraConfig

from .adapters import merged_weight


def full_weights(model: Any, adapter: Mapping[str, nn.Parameter], lora: LoraConfig | None) -> dict[str, Tensor]:
    """Every weight under the base's own name, the adapter added to the layers it is on; a tied weight once.

    An adapted head is a weight of its own, also where the base's is that of the embeddings.
    """
    weights: dict[str, Tensor] = {}
    seen: set[nn.Parameter] = set()
    for name, parameter in model.named_parameters(remove_duplicate=False):
        plain = name.replace(".base_layer.", ".")
        layer = plain.removesuffix(".weight")
        if ".lora_" in name:
            continue
        if lora is not None and f"{layer}.lora_A.weight" in adapter:
            a_RI, b_OR = (adapter[f"{layer}.lora_{letter}.weight"].detach() for letter in "AB")
            weights[plain] = merged_weight(parameter.detach(), a_RI, b_OR, lora.rank)
        elif parameter not in seen:
            weights[plain] = parameter.detach()
            seen.add(parameter)
    return weights


def hugging_face_export(model: Any, weights: dict[str, Tensor], base: str, folder: Path) -> None:
    """Write weights, configuration, tokenizer and generation configuration."""
    config = model.config
    was_tied = config.tie_word_embeddings
    heads = {name for name, module in model.named_modules() if module is model.get_output_embeddings()}
    config.use_cache = True
    config.tie_word_embeddings = was_tied and not any(f"{name}.weight" in weights for name in heads)
    try:
        model.save_pretrained(folder, state_dict=weights, max_shard_size="4GB")
        if model.can_generate():
            GenerationConfig.from_model_config(config).save_pretrained(folder)
    finally:
        config.use_cache, config.tie_word_embeddings = False, was_tied
    AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    if (Path(base) / "generation_config.json").exists():
        shutil.copy2(Path(base) / "generation_config.json", folder)
