"""Models of which vLLM leaves a part out: made whole as soon as they are loaded.

vLLM 0.32 gives the head of Phi-MoE no bias, which its folders have. Of a text model of Gemma 3n it
reads no embeddings per layer: only the model around it, which takes images, hands it these.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn


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
