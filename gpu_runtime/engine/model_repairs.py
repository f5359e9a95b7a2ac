"""Models of which vLLM leaves a part out, and parameters of which its own reload loses new weights,
or ends: made whole as soon as they are loaded.

vLLM 0.32 gives the head of Phi-MoE no bias, which its folders have. Of a text model of Gemma 3n it
reads no embeddings per layer: only the model around it, which takes images, hands it these.

A reload of vLLM 0.32 puts parameters on the device ``meta``, keeps what their loaders are given,
and builds each layer from that. The loader of GPT-OSS copies experts and attention sinks right into
the parameters: on ``meta`` these copies are lost, and the layers keep their old weights. The norms
of MiniMax have a loader without the name that a reload asks for.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

COPIES = "GptOssModel"  # the class whose loader copies
# The ends of names of experts' parameters, and what their own loader calls them.
EXPERTS = {
    "w13_weight": "gpt_oss_w13",
    "w13_bias": "gpt_oss_w13",
    "w2_weight": "gpt_oss_w2",
    "w2_bias": "gpt_oss_w2",
}
SINKS = "sinks"


def model_repair(model: nn.Module) -> None:
    """Let ``model`` compute what its folder says; most models stay as they are, and so does one
    that has been repaired.
    """
    repaired = REPAIRED.get(type(model).__name__)
    if repaired is not None:
        method, own = repaired
        vars(model)[method] = partial(own, model)


def _biased(model: Any, hidden_states: Tensor) -> Tensor | None:
    """logits = W h + b."""
    found: Tensor | None = model.logits_processor(model.lm_head, hidden_states, model.lm_head.bias)
    return found


def _embedded(model: Any, input_ids: Tensor | None, positions: Tensor, **given: Any) -> Any:
    """With what each layer has of each token, ``[tokens, layers, size]``."""
    if input_ids is not None and given.get("per_layer_inputs") is None:
        config = model.config
        given["per_layer_inputs"] = model.model.get_per_layer_input_embeddings(input_ids).view(
            -1, config.num_hidden_layers, config.hidden_size_per_layer_input
        )
    return type(model).forward(model, input_ids, positions, **given)


# The method of a class, and what stands for it.
REPAIRED: dict[str, tuple[str, Callable[..., Any]]] = {
    "PhiMoEForCausalLM": ("compute_logits", _biased),
    "Gemma3nForCausalLM": ("forward", _embedded),
}


def reloads_prepare(model: nn.Module) -> None:
    """Let every reload of ``model`` reach all of its parameters; most models stay as they are."""
    for parameter in model.parameters():
        loader: Any = getattr(parameter, "weight_loader", None)
        if isinstance(loader, partial) and not hasattr(loader, "__name__"):
            vars(loader)["__name__"] = loader.func.__name__
    for module in model.modules():
        if type(module).__name__ == COPIES:
            # the first method that sees each weight
            own: Any = module._try_load_streamed_expert  # noqa: SLF001
            vars(module)["_try_load_streamed_expert"] = partial(_loaded, own)


def _loaded(
    own: Callable[..., bool],
    name: str,
    weight: Tensor,
    parameters: dict[str, nn.Parameter],
    loaded: set[str],
) -> bool:
    """Whether ``weight`` was given to the loader of its parameter."""
    kind = EXPERTS.get(end := name.rpartition(".")[2])
    if name not in parameters or (kind is None and end != SINKS):
        return own(name, weight, parameters, loaded)
    parameter: Any = parameters[name]
    if kind is None:
        from vllm.distributed import get_tensor_model_parallel_rank
        from vllm.model_executor.model_loader.weight_utils import default_weight_loader

        heads = parameter.shape[0]
        part = weight.narrow(0, get_tensor_model_parallel_rank() * heads, heads)
        getattr(parameter, "weight_loader", default_weight_loader)(parameter, part)
    else:
        for expert, of_expert in enumerate(weight):
            parameter.weight_loader(
                parameter, of_expert, weight_name=name, shard_id=kind, expert_id=expert
            )
    loaded.add(name)
    return True
