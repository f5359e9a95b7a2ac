"""The model as a trainer sees it: a packed row in, the log-probabilities of its targets out."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM

from gpu_runtime.errors import ModelUnsupported

from .checkpointing import layers_recompute
from .cpu.tree_attention import ATTENTION
from .objective.regularizers import token_entropy
from .rows.tensors import RowTensors
from .tree_flex import FLEX

# Positions whose logits exist at one time: 1024 x a vocabulary of 150,000 in fp32 is 0.6 GB.
LOGITS_CHUNK = 1024
# The logit of a token that a grammar forbids. Not minus infinity: p log p would be 0 times infinity.
FORBIDDEN = -1e30


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
        """``logprobs_K`` in fp32 of the row's targets under the current weights.

        With ``with_entropy`` [2, K]: those, and the entropy of each position in nats, both with a gradient.
        """
        hidden_1ND = self.model.get_decoder()(
            input_ids=row.tokens_N[None], position_ids=row.depth_N[None], use_cache=False, tree=row.visible
        ).last_hidden_state
        hidden_RD = hidden_1ND[0, row.source_R]
        firsts = list(range(0, len(hidden_RD), LOGITS_CHUNK))
        entries = zip(*(_split(each, row.cuts(firsts)) for each in row.entries), strict=True)
        chunks = list(zip(firsts or [0], hidden_RD.split(LOGITS_CHUNK), entries, strict=True))
        rest = row.allowed_SB, with_entropy
        *arguments, last = [
            (hidden, None if places is None else places - first, *others, *rest)
            for first, hidden, (places, *others) in chunks
        ]
        logprobs = [checkpoint(self._logprobs, *each, use_reentrant=False) for each in arguments]
        # The last chunk is the first that the backward pass needs: its logits may as well stay.
        return torch.cat([*logprobs, self._logprobs(*last)], dim=-1)

    def logits(self, hidden_KD: Tensor) -> Tensor:
        """``[K, vocabulary]`` in fp32, as the model's own forward would return them."""
        return self._after_head(self.model.get_output_embeddings()(hidden_KD).float())

    def _logprobs(
        self,
        hidden_RD: Tensor,
        place_K: Tensor | None,
        target_K: Tensor,
        temperature_K: Tensor | None,
        allowed_K: Tensor | None,
        allowed_SB: Tensor | None,
        with_entropy: bool,
    ) -> Tensor:
        logits_KV = self.logits(hidden_RD)
        if place_K is not None:
            if temperature_K is None and allowed_K is None and not with_entropy:
                return logits_KV[place_K, target_K] - logits_KV.logsumexp(dim=1)[place_K]
            logits_KV = logits_KV[place_K]
        if allowed_K is not None and allowed_SB is not None:
            logits_KV = allowed_alone(logits_KV, allowed_SB[allowed_K])
        logprobs_K = token_logprobs(logits_KV, target_K, temperature_K)
        if not with_entropy:
            return logprobs_K
        sampled_KV = logits_KV if temperature_K is None else logits_KV / temperature_K[:, None]
        return torch.stack([logprobs_K, token_entropy(sampled_KV)])


def _split(values_K: Tensor | None, cuts: list[int]) -> Sequence[Tensor | None]:
    return [None] * (len(cuts) + 1) if values_K is None else values_K.tensor_split(cuts)


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


def allowed_alone(logits_KV: Tensor, allowed_KB: Tensor) -> Tensor:
    """The logits, FORBIDDEN where the id's bit is 0: their softmax is p(v) / p(allowed), and exactly 0 elsewhere."""
    places = torch.arange(8, dtype=torch.uint8, device=logits_KV.device)
    bits_KV = (allowed_KB[:, :, None] >> places & 1).flatten(1)[:, : logits_KV.shape[1]]
    return logits_KV.masked_fill(bits_KV == 0, FORBIDDEN)


def token_logprobs(logits_KV: Tensor, target_K: Tensor, temperature_K: Tensor | None = None) -> Tensor:
    """log softmax(logits / T)[target] = logit[target] / T - logsumexp(logits / T): of the sampled distribution."""
    if temperature_K is not None:
        logits_KV = logits_KV / temperature_K[:, None]
    return logits_KV.gather(1, target_K[:, None])[:, 0] - logits_KV.logsumexp(dim=1)
