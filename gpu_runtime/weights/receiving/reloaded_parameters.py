"""Parameters of which vLLM's own reload loses new weights, or ends: made such that it takes them.

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
