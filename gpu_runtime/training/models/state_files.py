"""The folder of a saved model: ``model.json``, weights, and where there are any, moments and a
waiting gradient.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from gpu_runtime.model_interfaces import InvalidTrainingInput, LoraConfig, state_describe
from gpu_runtime.training.lora import ADAPTER_CONFIG, ADAPTER_PREFIX, ADAPTER_WEIGHTS

WEIGHTS, OPTIMIZER, GRADIENT = (
    "weights.safetensors",
    "optimizer.safetensors",
    "gradient.safetensors",
)


def state_write(
    folder: Path,
    parameters: Mapping[str, nn.Parameter],
    optimizer: torch.optim.AdamW,
    lora: LoraConfig | None,
) -> None:
    """Write the state of a model; ``model.json`` comes last. ``folder`` is made, or there and
    empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    moments = _moments(parameters, optimizer)
    steps = {int(optimizer.state[p]["step"]) for p in parameters.values() if p in optimizer.state}
    about = {"lora": dataclasses.asdict(lora) if lora else None, "step": max(steps, default=0)}
    save_file(
        {name: parameter.detach().contiguous() for name, parameter in parameters.items()},
        folder / WEIGHTS,
    )
    if moments:
        save_file(moments, folder / OPTIMIZER)
    gradients = {name: p.grad.contiguous() for name, p in parameters.items() if p.grad is not None}
    if gradients:
        save_file(gradients, folder / GRADIENT)
    (folder / "model.json").write_text(json.dumps(about))


def state_weights(folder: Path) -> tuple[dict[str, Tensor], LoraConfig | None]:
    """The weights of a saved state, and of what kind of model. Raises InvalidTrainingInput where
    there is none.
    """
    if not (folder / "model.json").is_file():
        raise InvalidTrainingInput(f"there is no saved state at {folder.name!r}")
    lora = state_describe(folder)["lora"]
    return load_file(folder / WEIGHTS), LoraConfig(**lora) if lora else None


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
    weights, saved = state_weights(folder)
    if _shape(saved) != _shape(lora):
        raise InvalidTrainingInput(
            f"the state is of {_words(saved)}, and this model is of {_words(lora)}"
        )
    _check(weights, parameters)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])
            parameter.grad = None
    optimizer.state.clear()
    if with_optimizer and (folder / OPTIMIZER).is_file():
        _moments_restore(
            load_file(folder / OPTIMIZER), parameters, optimizer, state_describe(folder)["step"]
        )
    if with_gradient and (folder / GRADIENT).is_file():
        for name, gradient in load_file(folder / GRADIENT).items():
            parameters[name].grad = gradient.to(parameters[name].device)


def _moments(
    parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.AdamW
) -> dict[str, Tensor]:
    return {
        f"{moment}.{name}": optimizer.state[parameter][moment].contiguous()
        for name, parameter in parameters.items()
        if parameter in optimizer.state
        for moment in ("exp_avg", "exp_avg_sq")
    }


def _moments_restore(
    moments: Mapping[str, Tensor],
    parameters: Mapping[str, nn.Parameter],
    optimizer: torch.optim.AdamW,
    step: int,
) -> None:
    for name, parameter in parameters.items():
        optimizer.state[parameter] = {
            "step": torch.tensor(float(step), device=parameter.device),
            "exp_avg": moments[f"exp_avg.{name}"].to(parameter.device),
            "exp_avg_sq": moments[f"exp_avg_sq.{name}"].to(parameter.device),
        }


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
