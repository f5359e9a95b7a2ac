"""The state of a model that a Tinker client trains, in the form of ``states/folder.py``."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from gpu_runtime.model_interfaces import InvalidTrainingInput, LoraConfig, state_describe
from gpu_runtime.training.lora import ADAPTER_CONFIG, ADAPTER_PREFIX, ADAPTER_WEIGHTS
from gpu_runtime.training.states.folder import ABOUT, GRADIENT, WEIGHTS, part_name
from gpu_runtime.training.states.saved import MOMENTS, SavedState, about_write, tensors_write


def state_write(
    folder: Path,
    parameters: Mapping[str, nn.Parameter],
    optimizer: torch.optim.AdamW,
    lora: LoraConfig | None,
    advance: Callable[[], None] = lambda: None,
) -> None:
    """Write the state of a model; ``model.json`` comes last. ``folder`` is made, or there and
    empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    moments = {
        f"{moment}.{name}": optimizer.state[parameter][moment].reshape(-1)
        for name, parameter in parameters.items()
        if parameter in optimizer.state
        for moment in MOMENTS
    }
    gradients = {name: p.grad for name, p in parameters.items() if p.grad is not None}
    named = {WEIGHTS: parameters, part_name(0): moments, GRADIENT: gradients}
    for name, tensors in named.items():
        if tensors:
            tensors_write(folder / name, tensors, advance=advance)
    steps = {int(optimizer.state[p]["step"]) for p in parameters.values() if p in optimizer.state}
    about_write(folder, dataclasses.asdict(lora) if lora else None, max(steps, default=0))


def state_weights(folder: Path) -> tuple[dict[str, Tensor], LoraConfig | None]:
    """The weights of a saved state, and of what kind of model. Raises InvalidTrainingInput where
    there is none.
    """
    lora = _lora_of(folder)
    return load_file(folder / WEIGHTS), lora


def _lora_of(folder: Path) -> LoraConfig | None:
    if not (folder / ABOUT).is_file():
        raise InvalidTrainingInput(f"there is no saved state at {folder.name!r}")
    lora = state_describe(folder)["lora"]
    return LoraConfig(**lora) if lora else None


def saved_weights(folder: Path) -> tuple[dict[str, Tensor], LoraConfig | None]:
    """As ``state_weights``, also of the folder of an adapter for samplers. Raises
    InvalidTrainingInput."""
    if not (folder / ADAPTER_CONFIG).is_file():
        return state_weights(folder)
    rank = json.loads((folder / ADAPTER_CONFIG).read_text())["r"]
    weights = load_file(folder / ADAPTER_WEIGHTS)
    return {
        name.removeprefix(ADAPTER_PREFIX): weight for name, weight in weights.items()
    }, LoraConfig(rank=rank)


def state_read(
    folder: Path,
    parameters: Mapping[str, nn.Parameter],
    optimizer: torch.optim.AdamW,
    lora: LoraConfig | None,
    *,
    with_optimizer: bool,
    with_gradient: bool,
) -> None:
    """Give a model the state in ``folder``. Raises InvalidTrainingInput, the model unchanged, where
    it does not fit.
    """
    state_verify(folder, parameters, lora)
    state = SavedState(folder)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(state.weight_row(name, parameter.numel()).view(parameter.shape))
            parameter.grad = None
    optimizer.state.clear()
    for name, parameter in parameters.items():
        shape, size, device = parameter.shape, parameter.numel(), parameter.device
        if with_optimizer and state.step:
            optimizer.state[parameter] = {
                "step": torch.tensor(float(state.step), device=device)
            } | {
                each: row.view(shape).to(device, copy=True)
                for each, row in state.moments(name, size)
            }
        if with_gradient and (key := f"gradient.{name}") in state:
            parameter.grad = state.row(key, size).view(shape).to(device, copy=True)


def state_verify(
    folder: Path, parameters: Mapping[str, nn.Parameter], lora: LoraConfig | None
) -> None:
    """Raise InvalidTrainingInput unless the state in ``folder`` is of a model like this one."""
    saved = _lora_of(folder)
    if _shape(saved) != _shape(lora):
        raise InvalidTrainingInput(
            f"the state is of {_words(saved)}, and this model is of {_words(lora)}"
        )
    if (folder / WEIGHTS).is_file():
        _check(load_file(folder / WEIGHTS), parameters)


def _check(weights: Mapping[str, Tensor], parameters: Mapping[str, nn.Parameter]) -> None:
    for name in sorted(weights.keys() | parameters.keys()):
        saved, own = weights.get(name), parameters.get(name)
        if saved is None or own is None or saved.shape != own.shape:
            shapes = ["none" if each is None else str(list(each.shape)) for each in (saved, own)]
            raise InvalidTrainingInput(
                f"the state is of another base: {name} has the shape {shapes[0]} there and "
                f"{shapes[1]} here"
            )


def _shape(lora: LoraConfig | None) -> LoraConfig | None:
    return dataclasses.replace(lora, seed=None) if lora else None


def _words(lora: LoraConfig | None) -> str:
    if lora is None:
        return "all weights"
    parts = [name for name in ("train_attn", "train_mlp", "train_unembed") if getattr(lora, name)]
    return f"LoRA rank {lora.rank} ({', '.join(parts)})"
