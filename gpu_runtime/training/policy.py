"""The model as the trainer sees it: a packed row in, the log-probabilities of its trained tokens out."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM

from .packing import TreeRow
from .tree_attention import ATTENTION, Tree, tree_of

# Positions whose logits exist at one time: 1024 x a vocabulary of 150,000 in fp32 is 0.6 GB.
LOGITS_CHUNK = 1024


@dataclass(frozen=True)
class RowTensors:
    """A TreeRow on the device. ``visible`` says which token may attend to which, as the device's attention takes it."""

    tokens_N: Tensor
    depth_N: Tensor
    visible: Tree | BlockMask
    source_K: Tensor
    target_K: Tensor
    old_K: Tensor
    sample_K: Tensor

    @classmethod
    def of(cls, row: TreeRow, device: torch.device) -> "RowTensors":
        """The row's tensors on ``device``."""
        end_N = torch.tensor(row.end_N, device=device)
        return cls(
            tokens_N=torch.tensor(row.tokens_N, device=device),
            depth_N=torch.tensor(row.depth_N, device=device),
            visible=block_mask(end_N) if device.type == "cuda" else tree_of(end_N),
            source_K=torch.tensor(row.source_K, dtype=torch.long, device=device),
            target_K=torch.tensor(row.target_K, dtype=torch.long, device=device),
            old_K=torch.tensor(row.old_K, dtype=torch.float32, device=device),
            sample_K=torch.tensor(row.sample_K, dtype=torch.long, device=device),
        )


def block_mask(end_N: Tensor) -> BlockMask:
    """j <= i < end_N[j] for FlexAttention, which skips the blocks of the N x N square in which nothing is visible."""

    def sees(_batch: Tensor, _head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (j <= i) & (i < end_N[j])

    return create_block_mask(sees, None, None, len(end_N), len(end_N), device=end_N.device)


class Policy(nn.Module):
    """A causal language model whose ``forward`` answers ``logprobs_K``, never ``[tokens, vocabulary]`` logits."""

    model: Any  # a Hugging Face model: its methods are its class's own

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    @classmethod
    def load(
        cls, path: str, dtype: torch.dtype, *, device: str = "cpu", gradient_checkpointing: bool = False
    ) -> "Policy":
        """Load a Hugging Face folder or id, with the attention whose masks ``RowTensors`` makes for ``device``."""
        attention = "flex_attention" if device == "cuda" else ATTENTION
        model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation=attention)
        model.config.use_cache = False
        if gradient_checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return cls(model)

    def forward(self, row: RowTensors) -> Tensor:
        """``logprobs_K`` in fp32 of the row's trained tokens under the current weights."""
        visible = {"tree": row.visible} if isinstance(row.visible, Tree) else {"attention_mask": row.visible}
        hidden_1ND = self.model.get_decoder()(
            input_ids=row.tokens_N[None], position_ids=row.depth_N[None], use_cache=False, **visible
        ).last_hidden_state
        hidden_KD = hidden_1ND[0, row.source_K]
        *chunks, last = zip(hidden_KD.split(LOGITS_CHUNK), row.target_K.split(LOGITS_CHUNK), strict=True)
        logprobs = [checkpoint(self._logprobs, hidden, target, use_reentrant=False) for hidden, target in chunks]
        # The last chunk is the first that the backward pass needs: its logits may as well stay.
        return torch.cat([*logprobs, self._logprobs(*last)])

    def _logprobs(self, hidden_KD: Tensor, target_K: Tensor) -> Tensor:
        """log softmax(W h)[target] = logit[target] - logsumexp(logits)."""
        logits_KV = self.model.get_output_embeddings()(hidden_KD).float()
        return logits_KV.gather(1, target_K[:, None])[:, 0] - logits_KV.logsumexp(dim=1)
