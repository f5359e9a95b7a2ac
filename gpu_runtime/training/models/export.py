"""A model as a Hugging Face folder that transformers and vLLM load as it is."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
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


def spilled(weights: Iterable[tuple[str, Tensor]], folder: Path) -> dict[str, Tensor]:
    """Copies of tensors of the host that are files in ``folder``, without a name there, gone when the copies are.

    A model is written once all of its weights are there, and one more copy of them may be more than a process may have:
    these pages the kernel can write out and drop. Raises OSError where the disk is full.
    """
    known: list[tuple[str, Path, torch.Size, torch.dtype]] = []
    with TemporaryDirectory(prefix=".weights-", dir=folder) as place:
        for name, tensor in weights:
            path = Path(place, str(len(known)))
            known.append((name, path, tensor.shape, tensor.dtype))
            with path.open("wb") as file:
                file.write(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
            del tensor  # before the next one is made
        # After all: small things that stay, made between large ones that go, would leave the heap in pieces.
        return {name: _mapped(path, shape, dtype) for name, path, shape, dtype in known}


def _mapped(path: Path, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    if shape.numel() == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.from_file(str(path), size=shape.numel(), dtype=dtype).view(shape)


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
