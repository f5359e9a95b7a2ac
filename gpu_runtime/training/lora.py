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

from gpu_runtime.errors import ModelUnsupported
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.models.mixtures import ADAPTERS

from .models.towers import text_names

# A weight's name, the parameters (or the buffer) it is made of, and how.
PlainWeight = tuple[str, list[Tensor], Callable[[], Tensor]]
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

    Raises ModelUnsupported for a model that has no such layers, or others beside them.
    """
    option = f"lora_targets is {config.lora_targets}"
    if config.lora_targets != "attention" and has_experts(model):
        raise ModelUnsupported(f"{ADAPTERS.format(option=option)}: set lora_targets to attention")
    targets = _targets(model, config.lora_targets)
    if not targets:
        raise ModelUnsupported(f"{option}, and this model has no linear layers of that kind")
    # takes seconds, which a session without adapters saves
    from peft import inject_adapter_in_model

    inject_adapter_in_model(_peft_config(config, targets), model, adapter_name=ADAPTER)


def has_experts(model: nn.Module) -> bool:
    """Whether ``model`` is a mixture of experts, whose weights peft takes for no linear layers."""
    return any("experts" in name.split(".")[:-1] for name, _ in model.named_parameters())


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


def stored_buffers(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """What the model's files have beside its parameters, by name: a router's correction of its
    experts' scores (DeepSeek, GLM), a layer's scale (Gemma 4). It is not trained.
    """
    for prefix, module in model.named_modules():
        for name, buffer in module.named_buffers(prefix, recurse=False):
            if name.rpartition(".")[2] not in module._non_persistent_buffers_set:  # noqa: SLF001
                yield name, buffer


def handed_over(model: nn.Module) -> Iterator[PlainWeight]:
    """What an engine is given: ``plain_weights`` and the buffers that it may have lost as it
    reloads their modules.
    """
    yield from plain_weights(model)
    for name, buffer in stored_buffers(model):
        if buffer.is_floating_point():
            yield name, [buffer], _itself(buffer)


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


def _itself(tensor: Tensor) -> Callable[[], Tensor]:
    return lambda: tensor


def _merge(
    weight: nn.Parameter, a: nn.Parameter, b: nn.Parameter, scaling: float
) -> Callable[[], Tensor]:
    # In fp32, so that the sum is rounded once: to what the file holds.
    return lambda: weight.float() + scaling * (b.float() @ a.float())
