"""The model as the trainer sees it: a packed row in, the log-probabilities of its trained tokens out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM

from gpu_runtime.errors import ModelUnsupported

from .checkpointing import layers_recompute
from .cpu.tree_attention import ATTENTION, Tree, tree_of
from .objective.regularizers import token_entropy
from .packing import TreeRow
from .tree_flex import FLEX, FlexTree, flex_tree_of

# Positions whose logits exist at one time: 1024 x a vocabulary of 150,000 in fp32 is 0.6 GB.
LOGITS_CHUNK = 1024


@dataclass(frozen=True)
class RowTensors:
    """A TreeRow on the device. ``visible`` is which token may attend to which, as the device's attention takes it.

    ``temperature_K`` is None where all are 1: logits are then taken as they are. ``narrowed_K`` is None where no token
    was sampled under a grammar.
    """

    tokens_N: Tensor
    depth_N: Tensor
    visible: Tree | FlexTree
    source_K: Tensor
    target_K: Tensor
    old_K: Tensor
    sample_K: Tensor
    temperature_K: Tensor | None = None
    narrowed_K: Tensor | None = None

    @classmethod
    def of(cls, row: TreeRow, device: torch.device) -> "RowTensors":
        """The row's tensors on ``device``."""
        end_N = torch.tensor(row.end_N, device=device)
        is_tempered = any(temperature != 1.0 for temperature in row.temperature_K)
        return cls(
            tokens_N=torch.tensor(row.tokens_N, device=device),
            depth_N=torch.tensor(row.depth_N, device=device),
            visible=flex_tree_of(end_N) if device.type == "cuda" else tree_of(end_N),
            source_K=torch.tensor(row.source_K, dtype=torch.long, device=device),
            target_K=torch.tensor(row.target_K, dtype=torch.long, device=device),
            old_K=torch.tensor(row.old_K, dtype=torch.float32, device=device),
            sample_K=torch.tensor(row.sample_K, dtype=torch.long, device=device),
            temperature_K=torch.tensor(row.temperature_K, device=device) if is_tempered else None,
            narrowed_K=torch.tensor(row.narrowed_K, device=device) if any(row.narrowed_K) else None,
        )


class Policy(nn.Module):
    """A causal language model whose ``forward`` returns ``logprobs_K``, never ``[tokens, vocabulary]`` logits."""

    model: Any  # a Hugging Face model: its methods are its class's own

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self._after_head = after_head(model)

    @classmethod
    def load(
        cls, path: str, dtype: torch.dtype, *, device: str = "cpu", gradient_checkpointing: bool = False
    ) -> "Policy":
        """Load a Hugging Face folder or id, with the attention whose masks ``RowTensors`` makes for ``device``.

        Raises ModelUnsupported for a model that the library has no code of: that of a folder is never run.
        """
        attention = FLEX if device == "cuda" else ATTENTION
        try:
            model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation=attention)
        except ValueError as refusal:  # an unknown model_type, custom code, an attention that it cannot be given
            raise ModelUnsupported(f"transformers does not load this model: {str(refusal)[:500]}") from refusal
        model.config.use_cache = False
        if gradient_checkpointing:
            layers_recompute(model)
        return cls(model)

    def forward(self, row: RowTensors, *, with_entropy: bool = False) -> Tensor:
        """``logprobs_K`` in fp32 of the row's trained tokens under the current weights.

        With ``with_entropy`` [2, K]: those, and the entropy of each position in nats, both with a gradient.
        """
        hidden_1ND = self.model.get_decoder()(
            input_ids=row.tokens_N[None], position_ids=row.depth_N[None], use_cache=False, tree=row.visible
        ).last_hidden_state
        hidden_KD = hidden_1ND[0, row.source_K]
        pieces = hidden_KD.split(LOGITS_CHUNK), row.target_K.split(LOGITS_CHUNK)
        temperatures = [None] * len(pieces[0]) if row.temperature_K is None else row.temperature_K.split(LOGITS_CHUNK)
        *chunks, last = zip(*pieces, temperatures, strict=True)
        logprobs = [checkpoint(self._logprobs, *chunk, with_entropy, use_reentrant=False) for chunk in chunks]
        # The last chunk is the first that the backward pass needs: its logits may as well stay.
        return torch.cat([*logprobs, self._logprobs(*last, with_entropy)], dim=-1)

    def logits(self, hidden_KD: Tensor) -> Tensor:
        """``[K, vocabulary]`` in fp32, as the model's own forward would return them."""
        return self._after_head(self.model.get_output_embeddings()(hidden_KD).float())

    def _logprobs(
        self, hidden_KD: Tensor, target_K: Tensor, temperature_K: Tensor | None, with_entropy: bool
    ) -> Tensor:
        logits_KV = self.logits(hidden_KD)
        logprobs_K = token_logprobs(logits_KV, target_K, temperature_K)
        if not with_entropy:
            return logprobs_K
        sampled_KV = logits_KV if temperature_K is None else logits_KV / temperature_K[:, None]
        return torch.stack([logprobs_K, token_entropy(sampled_KV)])


def after_head(model: Any) -> Callable[[Tensor], Tensor]:
    """What the model's own forward does to logits after its head, by the fields of its configuration.

    Granite divides by ``logits_scaling``, Cohere multiplies by ``logit_scale``, Gemma caps at
    ``final_logit_softcapping``. ``model_check.py`` refuses a model that does something else.
    """
    config = model.config.get_text_config()
    divisor, factor, cap = (
        getattr(config, name, None) for name in ("logits_scaling", "logit_scale", "final_logit_softcapping")
    )

    def apply(logits_KV: Tensor) -> Tensor:
        if divisor is not None:
            logits_KV = logits_KV / divisor
        if factor is not None:
            logits_KV = logits_KV * factor
        return logits_KV if cap is None else cap * torch.tanh(logits_KV / cap)

    return apply


def token_logprobs(logits_KV: Tensor, target_K: Tensor, temperature_K: Tensor | None = None) -> Tensor:
    """log softmax(logits / T)[target] = logit[target] / T - logsumexp(logits / T): of the sampled distribution."""
    if temperature_K is not None:
        logits_KV = logits_KV / temperature_K[:, None]
    return logits_KV.gather(1, target_K[:, None])[:, 0] - logits_KV.logsumexp(dim=1)
