"""A packed row of data through the model: the log-probability of every target.

Logits of a node are computed once, however many targets it has.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gpu_runtime.training.cpu.tree_attention import Tree, tree_of
from gpu_runtime.training.policy import LOGITS_CHUNK, Policy
from gpu_runtime.training.tree_flex import FlexTree, flex_tree_of

from .data_packing import DataRow


@dataclass(frozen=True)
class RowInputs:
    """A DataRow on the device, with ``target_E`` in the order of its targets."""

    tokens_N: Tensor
    depth_N: Tensor
    visible: Tree | FlexTree
    node_E: Tensor
    target_E: Tensor

    @classmethod
    def of(cls, row: DataRow, target_E: Tensor, device: torch.device) -> "RowInputs":
        """The row's tensors on ``device``."""
        end_N = torch.from_numpy(row.end_N).to(device)
        return cls(
            tokens_N=torch.from_numpy(row.tokens_N).to(device),
            depth_N=torch.from_numpy(row.depth_N).to(device),
            visible=flex_tree_of(end_N) if device.type == "cuda" else tree_of(end_N),
            node_E=torch.from_numpy(row.node_E).to(device),
            target_E=target_E.to(device),
        )


def target_logprobs(policy: Policy, row: RowInputs) -> Tensor:
    """``logprobs_E`` in float32: log softmax(logits)[target], under the current weights."""
    decoded = policy.model.get_decoder()(
        input_ids=row.tokens_N[None], position_ids=row.depth_N[None], use_cache=False, tree=row.visible
    )
    hidden_ND = decoded.last_hidden_state[0]
    firsts = list(range(0, len(hidden_ND), LOGITS_CHUNK))
    cuts = torch.searchsorted(row.node_E, torch.tensor(firsts[1:], device=row.node_E.device)).tolist()
    pieces = zip(
        firsts,
        hidden_ND.split(LOGITS_CHUNK),
        row.node_E.tensor_split(cuts),
        row.target_E.tensor_split(cuts),
        strict=True,
    )
    *chunks, last = [(policy, hidden, nodes - first, targets) for first, hidden, nodes, targets in pieces]
    logprobs = [checkpoint(_chunk_logprobs, *chunk, use_reentrant=False) for chunk in chunks]
    # The last chunk is the first that the backward pass needs: its logits may as well stay.
    return torch.cat([*logprobs, _chunk_logprobs(*last)])


def _chunk_logprobs(policy: Policy, hidden_CD: Tensor, node_E: Tensor, target_E: Tensor) -> Tensor:
    logits_CV = policy.logits(hidden_CD)
    return logits_CV[node_E, target_E] - logits_CV.logsumexp(dim=1)[node_E]
