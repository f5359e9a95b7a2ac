"""LoRA: low-rank adapters on a frozen base (Hu et al. 2021, arXiv:2106.09685), by peft.

Only the trainer has them: wherever weights leave it, W + (alpha / rank) B A stands in for W, under
the base model's own names.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from deepspeed.utils import set_z3_leaf_modules
from safetensors.torch import save_file
from torch import Tensor, nn

from gpu_runtime.errors import ModelUnsupported
from tinkerscript.wire.config import SessionConfig

from .models.expert_adapters import (
    WRAPPED,
    expert_delta,
    expert_weights,
    is_expert_key,
    never_adapted,
)
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
    parts = None if config.lora_targets == "all-linear" else PARTS[config.lora_targets]
    targets = linear_layers(model, parts)
    experts = [] if config.lora_targets == "attention" else list(expert_weights(model))
    if not (targets or experts):
        raise ModelUnsupported(f"{option}, and this model has no linear layers of that kind")
    # takes seconds, which a session without adapters saves
    from peft import inject_adapter_in_model
    from peft.tuners.lora.layer import ParamWrapper

    adapter = peft_config(config.lora_rank, config.lora_alpha, targets, experts)
    try:
        inject_adapter_in_model(adapter, model, adapter_name=ADAPTER)
    except ValueError as refusal:  # layers of a state space, for one
        raise ModelUnsupported(f"{option}: peft refuses it: {str(refusal)[:300]}") from refusal
    if experts and config.zero_stage == 3:
        # A wrapper reads its adapter's weights without calling their modules.
        set_z3_leaf_modules(model, [ParamWrapper])


def peft_config(rank: int, alpha: float, layers: list[str], experts: list[str]) -> Any:
    """An adapter's configuration, as peft has it: on linear layers, and on joined ``experts``."""
    from peft import LoraConfig

    return LoraConfig(
        r=rank,
        lora_alpha=alpha,
        target_modules=layers,
        target_parameters=experts or None,
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )


def linear_layers(model: Any, parts: set[str] | None, *, head: bool = False) -> list[str]:
    """Names of the text side's linear layers as they are in the base, in the model's order: those
    of ``parts`` (None: of all), and the ``head``.
    """
    output = model.get_output_embeddings()
    output, found = getattr(output, "base_layer", output), []
    texts = text_names(model) - never_adapted(model)
    for name, module in model.named_modules():
        if not isinstance(module, nn.Linear) or ".lora_" in name or name not in texts:
            continue
        plain = name.removesuffix(".base_layer")
        if head if module is output else parts is None or bool(parts & set(plain.split("."))):
            found.append(plain)
    return found


@contextmanager
def adapters_off(model: nn.Module) -> Iterator[None]:
    """The base model, as long as the block lasts."""
    layers = list(adapted_layers(model).values())
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
    adapted = {id(_weight_of(layer)): layer for layer in adapted_layers(model).values()}
    for name, parameter in model.named_parameters():
        layer = adapted.get(id(parameter))
        if layer is not None:
            a, b = layer.lora_A[ADAPTER].weight, layer.lora_B[ADAPTER].weight
            scaling, base = layer.scaling[ADAPTER], layer.get_base_layer()
            merge = partial(merged_weight, parameter, a, b, scaling, base)
            yield name.replace(WRAPPED, ""), [parameter, a, b], merge
        elif ".lora_" not in name:
            yield name.replace(WRAPPED, ""), [parameter], _itself(parameter)


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
    for name, layer in adapted_layers(model).items():
        for letter in "AB":
            parameter = getattr(layer, f"lora_{letter}")[ADAPTER].weight
            yield f"{name}.lora_{letter}.weight", [parameter], _itself(parameter)


def adapter_export(
    model: nn.Module,
    weights: dict[str, Tensor],
    rank: int,
    alpha: float,
    base: str,
    folder: Path,
) -> None:
    """Write the adapter whose A and B ``weights`` has as a folder that
    ``peft.PeftModel.from_pretrained`` loads, in the form that vLLM takes adapters in.

    ``model`` is of the kind that it is on, ``base`` the base model's folder, of which a reader is
    told the name alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    layers = sorted({name.rsplit(".", 2)[0] for name in weights})
    linear = [layer for layer in layers if not is_expert_key(layer)]
    experts = list(expert_weights(model)) if len(linear) < len(layers) else []
    config = peft_config(rank, alpha, linear, experts)
    config.base_model_name_or_path = Path(base).name
    config.inference_mode = True
    config.save_pretrained(str(folder))
    named = {
        f"{ADAPTER_PREFIX}{name}": tensor.detach().cpu().contiguous()
        for name, tensor in weights.items()
    }
    save_file(named, folder / ADAPTER_WEIGHTS, metadata={"format": "pt"})


def adapted_layers(model: nn.Module) -> dict[str, Any]:
    """peft's layers, whose attributes ``nn.Module`` does not declare, by name."""
    return {name: module for name, module in model.named_modules() if hasattr(module, "lora_A")}


def _itself(tensor: Tensor) -> Callable[[], Tensor]:
    return lambda: tensor


def _weight_of(layer: Any) -> Tensor:
    """The weight that a layer of peft's adapts."""
    weight: Tensor = getattr(layer.get_base_layer(), getattr(layer, "parameter_name", "weight"))
    return weight


def merged_weight(weight: Tensor, a: Tensor, b: Tensor, scaling: float, layer: Any) -> Tensor:
    """W + scaling B A in float32, so that the sum is rounded once, to what a file holds; of each
    expert where ``layer`` is joined experts.
    """
    is_joined = weight.dim() == 3
    delta = expert_delta(layer, a, b, len(weight)) if is_joined else b.float() @ a.float()
    return weight.float() + scaling * delta
