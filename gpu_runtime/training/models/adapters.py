"""Many LoRA adapters on one frozen base, by peft: one takes part in a forward pass, the others wait
beside it.

An adapter adds (ALPHA / rank) B A to the weight of each layer it is on (Hu et al. 2021,
arXiv:2106.09685).
"""

import hashlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gpu_runtime.errors import ModelUnsupported
from gpu_runtime.model_interfaces import InvalidTrainingInput, LoraConfig
from gpu_runtime.training.lora import (
    PARTS,
    adapted_layers,
    linear_layers,
    peft_config,
)

from .expert_adapters import expert_weights

# Whatever the rank: Schulman et al. 2025, "LoRA Without Regret"; also the alpha of the hosted
# service's adapters.
ALPHA = 32.0
MAX_RANK = 512  # the largest that vLLM serves


def lora_check(lora: LoraConfig) -> None:
    """Raises InvalidTrainingInput for an adapter that would be none, or that no engine serves."""
    if not 1 <= lora.rank <= MAX_RANK:
        raise InvalidTrainingInput(
            f"lora rank {lora.rank} must be 1 to {MAX_RANK}, or 0 to train all weights"
        )
    if not (lora.train_attn or lora.train_mlp or lora.train_unembed):
        raise InvalidTrainingInput(
            "train_attn, train_mlp and train_unembed are all false: nothing would be trained"
        )


class Adapters:
    """The adapters on the layers of ``model``. The layers are looked for once a change: to look for
    them takes as long as to choose an adapter.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._layers: dict[str, Any] = {}
        self._selected: str | None = None

    def add(self, name: str, lora: LoraConfig, model_id: str) -> dict[str, nn.Parameter]:
        """Put the adapter ``name`` on the layers; returns its parameters by the base's names of
        their layers.

        A is drawn from the seed alone, B is zero: the model begins as the base. Both are float32
        whatever the base is in: a step of 1e-4 is lost in a weight of 8 bits. Raises
        InvalidTrainingInput.
        """
        lora_check(lora)
        model = self._model
        targets, experts = _targets(model, lora), _experts(model, lora)
        if not (targets or experts):
            raise InvalidTrainingInput(
                "this base has no linear layers in the parts that train_attn, train_mlp name"
            )
        from peft import inject_adapter_in_model  # takes seconds, which a whole model saves
        from peft.tuners.tuners_utils import cast_adapter_dtype

        frozen = [parameter for parameter in model.parameters() if not parameter.requires_grad]
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            # Of a second adapter, and of merging one on a head that is tied to the embeddings:
            # export.py unties it.
            warnings.filterwarnings(
                "ignore", message="Already found a `peft_config`|.*tie_word_embeddings"
            )
            torch.manual_seed(_seed(lora, model_id))
            adapter = peft_config(lora.rank, ALPHA, targets, list(experts))
            inject_adapter_in_model(adapter, model, adapter_name=name)
            cast_adapter_dtype(model, adapter_name=name)
        for parameter in frozen:
            parameter.requires_grad_(False)  # those of the other adapters too
        self._layers, self._selected = adapted_layers(model), None
        return {
            f"{layer}.lora_{letter}.weight": getattr(module, f"lora_{letter}")[name].weight
            for layer, module in self._layers.items()
            if name in module.lora_A
            for letter in "AB"
        }

    def select(self, name: str) -> None:
        """From now on the model is the base with this adapter, and no other parameters have
        gradients.
        """
        if name != self._selected:
            for layer in self._layers.values():
                layer.set_adapter(name)
            self._selected = name

    @contextmanager
    def side_by_side(self, parts: Sequence[tuple[str, int]]) -> Iterator[None]:
        """As long as the block lasts, a row is of several adapters: of each its name, and how many
        of the row's tokens, one after another, are its own. Which of them is selected stays.
        """
        for layer in self._layers.values():
            layer.forward = partial(_of_parts, layer, parts)
        try:
            yield
        finally:
            for layer in self._layers.values():
                del layer.forward

    def remove(self, name: str) -> None:
        """Free the adapter's memory."""
        with warnings.catch_warnings():
            # the next call selects its own
            warnings.filterwarnings("ignore", message="Adapter .* was active")
            for layer in self._layers.values():
                if name in layer.lora_A:
                    layer.delete_adapter(name)
        self._model.peft_config.pop(name)
        self._layers, self._selected = adapted_layers(self._model), None


def _of_parts(layer: Any, parts: Sequence[tuple[str, int]], inputs: Tensor) -> Tensor:
    """``[..., N, K]`` in, ``[..., N, out]`` out: the base of all tokens, to each what its own
    adapter adds, in the order of peft's own forward. Raises ModelUnsupported for a layer that is
    not one of tokens.
    """
    counts = [count for _, count in parts]
    if not isinstance(layer.get_base_layer(), nn.Linear) or inputs.shape[-2] != sum(counts):
        raise ModelUnsupported("a layer of this model does not compute one token after another")
    base = layer.base_layer(inputs)
    added = [
        layer.lora_B[name](layer.lora_A[name](own)) * layer.scaling[name]
        if name in layer.lora_A
        else base.new_zeros(*own.shape[:-1], base.shape[-1])
        for (name, _), own in zip(parts, inputs.float().split(counts, dim=-2), strict=True)
    ]
    return (base + torch.cat(added, dim=-2)).to(base.dtype)


def adapters_bytes(model: Any, loras: Iterable[LoraConfig]) -> int:
    """What adapters cost while they are trained: in float32 the weights, gradient and two moments
    of each, and a call's gradient of the largest. Calls of several in one pass have a bound of
    their own (``joined.py``).
    """
    counts = [_weights_count(model, lora) for lora in loras]
    return 4 * (4 * sum(counts) + max(counts, default=0))


def _weights_count(model: Any, lora: LoraConfig) -> int:
    lora_check(lora)
    layers = [model.get_submodule(name) for name in _targets(model, lora)]
    sizes = sum(layer.in_features + layer.out_features for layer in layers)
    experts = [weight.shape for weight in _experts(model, lora).values()]
    sizes += sum(count * (one + other) for count, one, other in experts)
    return int(lora.rank * sizes)


def _targets(model: Any, lora: LoraConfig) -> list[str]:
    parts = (PARTS["attention"] if lora.train_attn else set()) | (
        PARTS["mlp"] if lora.train_mlp else set()
    )
    return linear_layers(model, parts, head=lora.train_unembed)


def _experts(model: Any, lora: LoraConfig) -> dict[str, nn.Parameter]:
    return expert_weights(model) if lora.train_mlp else {}


def _seed(lora: LoraConfig, model_id: str) -> int:
    if lora.seed is not None:
        return lora.seed
    return int.from_bytes(hashlib.sha256(model_id.encode()).digest()[:7])
