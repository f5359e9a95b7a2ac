"""Folders with a vision or audio tower beside their text model: the text side trains, the rest is
frozen.

What is frozen is in every export byte for byte as the base's files have it, whatever the type that
the trainer computes in, so that the folder serves images as before.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import (
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
)
from transformers.core_model_loading import revert_weight_conversion
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from tinkerscript.wire.training.models.model_proof import FROZEN

TEXT = "model-text.safetensors"


def auto_class(config: Any) -> Any:
    """Which of transformers' classes loads the folder of this configuration whole: with its tower
    where it has one.
    """
    is_text = (
        config.get_text_config() is config
        or type(config) not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
    )
    return AutoModelForCausalLM if is_text else AutoModelForImageTextToText


def has_tower(model: Any) -> bool:
    """Whether ``model`` holds more than a text model."""
    return model.config.get_text_config() is not model.config


def frozen_names(model: Any) -> set[str]:
    """The parameters of ``model`` that are neither its text model's nor its head's."""
    if not has_tower(model):
        return set()
    texts = {id(weight) for part in _text_parts(model) for weight in part.parameters()}
    return {name for name, weight in model.named_parameters() if id(weight) not in texts}


def text_names(model: Any) -> set[str]:
    """The modules of its text model and its head, by name; of a model without a tower all."""
    if not has_tower(model):
        return {name for name, _ in model.named_modules()}
    parts = {id(module) for part in _text_parts(model) for module in part.modules()}
    return {name for name, module in model.named_modules() if id(module) in parts}


def _text_parts(model: Any) -> list[Any]:
    return [model.get_decoder(), model.get_output_embeddings()]


def tower_freeze(model: Any) -> None:
    """Train the text side alone."""
    frozen = frozen_names(model)
    for name, weight in model.named_parameters():
        if name in frozen:
            weight.requires_grad_(False)


def frozen_write(model: Any, base: Path, folder: Path) -> None:
    """Into ``folder``, which has the text side: what ``base`` has beside it, as it has it.

    Raises ValueError for a base that lacks a weight of the tower, OSError where a byte of what was
    written is another.
    """
    frozen = frozen_names(model)
    if not frozen:
        return
    weights = dict(model.named_parameters())
    wanted = set(revert_weight_conversion(model, {name: weights[name].detach() for name in frozen}))
    of_base, written = _places(base), _places(folder)
    if missing := sorted(wanted - set(of_base)):
        raise ValueError(f"the base's files have no {missing[0]}, which its tower needs")
    if set(written) <= set(of_base):  # under the same names: whatever else the base has comes along
        wanted |= set(of_base) - set(written) - _second_names(model)
    tensors = dict(_read(base, of_base, wanted))
    save_file(tensors, folder / FROZEN, metadata={"format": "pt"})
    for name, tensor in _read(folder, dict.fromkeys(tensors, FROZEN), set(tensors)):
        if not torch.equal(_bytes(tensor), _bytes(tensors[name])):
            raise OSError(f"{FROZEN} has other bytes of {name} than the base's files")
    if set(written.values()) == {SAFE_WEIGHTS_NAME}:  # a file of that name is taken for all of them
        (folder / SAFE_WEIGHTS_NAME).rename(folder / TEXT)
        written = dict.fromkeys(written, TEXT)
    places = written | dict.fromkeys(tensors, FROZEN)
    size = sum((folder / file).stat().st_size for file in set(places.values()))
    index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(places.items()))}
    (folder / SAFE_WEIGHTS_INDEX_NAME).write_text(json.dumps(index, indent=2) + "\n")


def _second_names(model: Any) -> set[str]:
    """The names in files of tied weights, whose first name is written: a loader that finds another
    tensor under the second does not tie them.
    """
    first = dict(model.named_parameters())
    second = {
        name.replace(".base_layer.", "."): weight.detach()
        for name, weight in model.named_parameters(remove_duplicate=False)
        if name not in first
    }
    return set(revert_weight_conversion(model, second))


def _places(folder: Path) -> dict[str, str]:
    """The file of each weight."""
    index = folder / SAFE_WEIGHTS_INDEX_NAME
    if index.exists():
        found: dict[str, str] = json.loads(index.read_text())["weight_map"]
        return found
    with safe_open(folder / SAFE_WEIGHTS_NAME, "pt") as file:
        return dict.fromkeys(file.keys(), SAFE_WEIGHTS_NAME)


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.view(-1).view(torch.uint8)


def _read(folder: Path, places: dict[str, str], names: set[str]) -> Iterator[tuple[str, Tensor]]:
    for path in sorted({places[name] for name in names}):
        with safe_open(folder / path, "pt") as file:
            yield from (
                (name, file.get_tensor(name)) for name in sorted(names) if places[name] == path
            )
