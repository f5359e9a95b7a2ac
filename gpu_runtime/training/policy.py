"""The model as the trainer sees it: a packed row in, the log-probabilities of its trained tokens out."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM

from .packing import TreeRow

# Positions whose logits exist at one time: 1024 x a vocabulary of 150,000 in fp32 is 0.6 GB.
LOGITS_CHUNK = 1024


@dataclass(frozen=True)
class RowTensors:
    """A TreeRow on the device. ``visible_NN[i, j]`` is true where token i may attend to token j."""

    tokens_N: Tensor
    depth_N: Tensor
    visible_NN: Tensor
    source_K: Tensor
    target_K: Tensor
    old_K: Tensor
    sample_K: Tensor

    @classmethod
    def of(cls, row: TreeRow, device: torch.device) -> "RowTensors":
        """j is an ancestor of i, or i itself, iff j <= i < end_N[j]."""
        index_N = torch.arange(len(row.tokens_N), device=device)
        end_N = torch.tensor(row.end_N, device=device)
        visible_NN = (index_N[None, :] <= index_N[:, None]) & (index_N[:, None] < end_N[None, :])
        return cls(
            tokens_N=torch.tensor(row.tokens_N, device=device),
            depth_N=torch.tensor(row.depth_N, device=device),
            visible_NN=visible_NN,
            source_K=torch.tensor(row.source_K, dtype=torch.long, device=device),
            target_K=torch.tensor(row.target_K, dtype=torch.long, device=device),
            old_K=torch.tensor(row.old_K, dtype=torch.float32, device=device),
            sample_K=torch.tensor(row.sample_K, dtype=torch.long, device=device),
        )


class Policy(nn.Module):
    """A causal language model whose ``forward`` answers ``logprobs_K``, never ``[tokens, vocabulary]`` logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    @classmethod
    def load(cls, path: str, dtype: torch.dtype, *, gradient_checkpointing: bool = False) -> "Policy":
        """Load a Hugging Face folder or id. SDPA attention, because it takes the tree's mask on every device."""
        model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="sdpa")
        model.config.use_cache = False
        if gradient_checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return cls(model)

    def forward(self, row: RowTensors) -> Tensor:
        """``logprobs_K`` in fp32 of the row's trained tokens under the current weights."""
        hidden_1ND = self.model.get_decoder()(
            input_ids=row.tokens_N[None],
            position_ids=row.depth_N[None],
            attention_mask=row.visible_NN[None, None],
            use_cache=False,
        ).last_hidden_state
        hidden_KD = hidden_1ND[0, row.source_K]
        chunks = zip(hidden_KD.split(LOGITS_CHUNK), row.target_K.split(LOGITS_CHUNK), strict=True)
        return torch.cat([checkpoint(self._logprobs, h, t, use_reentrant=False) for h, t in chunks])

    def _logprobs(self, hidden_KD: Tensor, target_K: Tensor) -> Tensor:
        """log softmax(W h)[target] = logit[target] - logsumexp(logits); recomputed in the backward pass."""
        logits_KV = self.model.get_output_embeddings()(hidden_KD).float()
        return logits_KV.gather(1, target_K[:, None])[:, 0] - logits_KV.logsumexp(dim=1)
