"""LoRA: low-rank adapters on a frozen base (Hu et al. 2021, arXiv:2106.09685), by peft.

Only the trainer has them: wherever weights leave it, W + (alpha / rank) B A stands in for W, under
the base model's own names.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor, nn

from tinkerscript.wire.config import SessionConfig

from .models.towers import text_names

# A weight's name, the parameters it is made of, and how.
PlainWeight = tuple[str, list[nn.Parameter], Callable[[], Tensor]]
ADAPTER = "default"
# An adapter's folder, as peft names files and weights in it.
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
ADAPTER_PREFIX = "base_model.model."
# What Hugging Face models call the modules that hold the linear layers of each part.
PARTS = {
    "attention": {"self_attn", "attn", "attention"},
    "mlp": {"mlp", "shared_mlp", "feed_forward"},
}


def adapters_add(model: nn.Module, config: SessionConfig) -> None:
    """Put an adapter beside each target layer and freeze the rest. B begins at zero: the first step
    starts at the base.

    Raises ValueError for a model that has no such layers.
    """
    targets = _targets(model, config.lora_targets)
    if not targets:
        raise ValueError(
            f"this model has no linear layers that lora_targets={config.lora_targets} would adapt"
        )
    # takes seconds, which a session without adapters saves
    from peft import inject_adapter_in_model

    inject_adapter_in_model(_peft_config(config, targets), model, adapter_name=ADAPTER)


def _peft_config(config: SessionConfig, targets: list[str]) -> Any:
    from peft import LoraConfig

    return LoraConfig(
        r=config.lora_rank,
        lora_alpha=config.lora_alpha,
        target_modules=targets,
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )


def _targets(model: Any, part: str) -> list[str]:
    head = model.get_output_embeddings()
    texts = text_names(model)
    modules = [(name, module) for name, module in model.named_modules() if name in texts]
    linear = [
        name for name, module in modules if isinstance(module, nn.Linear) and module is not head
    ]
    return [name for name in linear if part == "all-linear" or PARTS[part] & set(name.split("."))]


@contextmanager
def adapters_off(model: nn.Module) -> Iterator[None]:
    """The base model, as long as the block lasts."""
    layers = list(_adapted(model).values())
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


def plain_weights(model: nn.Module) -> Iterator[PlainWeight]:
    """Each weight of the model without adapters: its name, the parameters it is made of, and how.

    Those parameters must be whole when the function is called; it returns fp32 where it adds an
    adapter.
    """
    adapted = _adapted(model)
    for name, parameter in model.named_parameters():
        layer = adapted.get(name.removesuffix(".base_layer.weight"))
        if layer is not None:
            a, b = layer.lora_A[ADAPTER].weight, layer.lora_B[ADAPTER].weight
            merge = _merge(parameter, a, b, layer.scaling[ADAPTER])
            yield name.replace(".base_layer.", "."), [parameter, a, b], merge
        elif ".lora_" not in name:
            yield name.replace(".base_layer.", "."), [parameter], _itself(parameter)


def adapter_weights(model: nn.Module) -> Iterator[PlainWeight]:
    """A and B of each adapted layer, by the layer's name in the base:
    ``model.layers.0.mlp.up_proj.lora_A.weight``.
    """
    for name, layer in _adapted(model).items():
        for letter in "AB":
            parameter = getattr(layer, f"lora_{letter}")[ADAPTER].weight
            yield f"{name}.lora_{letter}.weight", [parameter], _itself(parameter)


def adapter_export(
    weights: dict[str, Tensor], config: SessionConfig, base: str, folder: Path
) -> None:
    """Write the adapter whose A and B ``weights`` has, as a folder of peft's."""
    layers = sorted({name.rsplit(".", 2)[0] for name in weights})
    adapter_folder_write(weights, _peft_config(config, layers), base, folder)


def adapter_folder_write(weights: dict[str, Tensor], config: Any, base: str, folder: Path) -> None:
    """Write a folder that ``peft.PeftModel.from_pretrained`` loads, in the form that vLLM takes
    adapters in.

    ``base`` is the base model's folder, of which a reader is told the name alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config.base_model_name_or_path = Path(base).name
    config.inference_mode = True
    config.save_pretrained(str(folder))
    named = {
        f"{ADAPTER_PREFIX}{name}": tensor.detach().cpu().contiguous()
        for name, tensor in weights.items()
    }
    save_file(named, folder / ADAPTER_WEIGHTS, metadata={"format": "pt"})


def _adapted(model: nn.Module) -> dict[str, Any]:
    """peft's layers, whose attributes ``nn.Module`` does not declare, by name."""
    return {name: module for name, module in model.named_modules() if hasattr(module, "lora_A")}


def _itself(parameter: nn.Parameter) -> Callable[[], Tensor]:
    return lambda: parameter


def _merge(
    weight: nn.Parameter, a: nn.Parameter, b: nn.Parameter, scaling: float
) -> Callable[[], Tensor]:
    # In fp32, so that the sum is rounded once: to what the file holds.
    return lambda: weight.float() + scaling * (b.float() @ a.float())
