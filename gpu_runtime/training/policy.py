"""The model as a trainer sees it: a packed row in, the log-probabilities of its targets out."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM

from gpu_runtime.errors import ModelUnsupported

from .checkpointing import layers_recompute
from .cpu.token_logprobs import TokenLogprobs
from .cpu.tree_attention import ATTENTION
from .objective.regularizers import token_entropy
from .rows.tensors import RowTensors
from .sharding.sequence_parallel import SharedRow, WholeOfParts, attention_register, heads_verify
from .tree_flex import FLEX

# Positions whose logits exist at one time: 1024 x a vocabulary of 150,000 in fp32 is 0.6 GB.
LOGITS_CHUNK = 1024
# The logit of a token that a grammar forbids. Not minus infinity: p log p would be 0 times infinity.
FORBIDDEN = -1e30


class Policy(nn.Module):
    """A causal language model whose ``forward`` returns ``logprobs_K``, never ``[tokens, vocabulary]`` logits."""

    model: Any  # a Hugging Face model: its methods are its class's own

    def __init__(self, model: nn.Module, *, shares_rows: bool = False) -> None:
        super().__init__()
        self.model = model
        self._shares_rows = shares_rows
        self._after_head = after_head(model)

    @classmethod
    def load(
        cls, path: str, dtype: torch.dtype, *, device: str = "cpu", gradient_checkpointing: bool = False,
        offload_activations: bool = False, shares_rows: bool = False,
    ) -> "Policy":  # fmt: skip
        """Load a Hugging Face folder or id, with the attention whose masks ``RowTensors`` makes for ``device``.

        With ``shares_rows`` every rank calls ``forward`` with the same row and computes a part of it.

        Raises ModelUnsupported for a model that the library has no code of: that of a folder is never run.
        """
        attention = FLEX if device == "cuda" else ATTENTION
        try:
            model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation=attention)
        except ValueError as refusal:  # an unknown model_type, custom code, an attention that it cannot be given
            raise ModelUnsupported(f"transformers does not load this model: {str(refusal)[:500]}") from refusal
        model.config.use_cache = False
        if gradient_checkpointing:
            layers_recompute(model, offload=offload_activations)
        if shares_rows:
            heads_verify(model.config.get_text_config())
            model.set_attn_implementation(attention_register(attention))
        return cls(model, shares_rows=shares_rows)

    def forward(self, row: RowTensors, *, with_entropy: bool = False) -> Tensor:
        """``logprobs_K`` in fp32 of the row's targets under the current weights.

        With ``with_entropy`` [2, K]: those, and the entropy of each position in nats, both with a gradient.
        """
        if self._shares_rows:
            return self._forward_shared(row, with_entropy)
        hidden_ND = self._hidden(row.tokens_N, row.depth_N, row.visible)
        return self._scores(hidden_ND[row.source_R], row, with_entropy)

    def _forward_shared(self, row: RowTensors, with_entropy: bool) -> Tensor:
        """The whole row's scores on every rank, of which each computed those of its part."""
        assert row.place_K is None, "rows of a managed step have logits for each of their targets"
        shared = SharedRow.of(row.visible, len(row.tokens_N))
        hidden_nD = self._hidden(shared.part(row.tokens_N), shared.part(row.depth_N), shared)
        chosen, count = shared.own(row.source_R)
        mine = replace(
            row,
            target_K=row.target_K[chosen],
            temperature_K=None if row.temperature_K is None else row.temperature_K[chosen],
            allowed_K=None if row.allowed_K is None else row.allowed_K[chosen],
        )
        scores = self._scores(hidden_nD[shared.place(row.source_R[chosen])], mine, with_entropy)[..., :count]
        whole = scores.new_zeros(*scores.shape[:-1], len(row.source_R))
        found: Tensor = WholeOfParts.apply(whole.index_copy(-1, chosen[:count], scores))
        return found

    def _hidden(self, tokens_N: Tensor, depth_N: Tensor, tree: Any) -> Tensor:
        decoder = self.model.get_decoder()
        hidden_1ND: Tensor = decoder(
            input_ids=tokens_N[None], position_ids=depth_N[None], use_cache=False, tree=tree
        ).last_hidden_state
        return hidden_1ND[0]

    def _scores(self, hidden_RD: Tensor, row: RowTensors, with_entropy: bool) -> Tensor:
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
    if logits_KV.device.type == "cpu":
        logprobs_K: Tensor = TokenLogprobs.apply(logits_KV, target_K, temperature_K)
        return logprobs_K
    if temperature_K is not None:
        logits_KV = logits_KV / temperature_K[:, None]
    return logits_KV.gather(1, target_K[:, None])[:, 0] - logits_KV.logsumexp(dim=1)
