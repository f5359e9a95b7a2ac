"""The trainer's log-probabilities against the model's own forward, on a packed tree, before anything is trained.

The trainer calls the decoder with an attention of its own and computes log-probabilities itself. Whatever a model does
beside that (a window, a cap, a factor on its logits) shows here as a gap, and the model is refused by name.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpu_runtime.errors import ModelUnsupported
from gpu_runtime.interfaces import Sample
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.model_refusals import window_reached

from .policy import Policy
from .rows.loop_data import sample_data
from .rows.packing import pack_row
from .rows.tensors import RowTensors

SHORT = 48  # tokens of a probe where no window asks for more
BRANCH = 8  # trained tokens at the end of each of the two samples
# Mean difference in nats. float32: rounding is under 1e-5. bfloat16: two attention kernels differ by 0.03 on average.
BOUNDS = {torch.float32: 1e-4, torch.bfloat16: 0.15}
# Words in the names of fields that change what a layer or the head computes.
SUSPECTS = ("window", "softcap", "scal", "multiplier", "sink", "chunk", "layer_types", "bias", "norm", "rotary")


@torch.no_grad()
def policy_verify(policy: Policy, config: SessionConfig, device: torch.device) -> None:
    """Raises ModelUnsupported when the two differ by more than rounding."""
    samples = probe_samples(policy.model.config.get_text_config(), config)
    data = sample_data(samples)
    row = pack_row(data, range(len(data)))
    measured_K = policy(RowTensors.of(row, data, device))
    order = np.argsort(row.datum_K, kind="stable")
    expected_K = torch.cat([_own_logprobs(policy.model, sample, device) for sample in samples])
    gap = (measured_K[torch.from_numpy(order).to(device)] - expected_K).abs().mean().item()
    if not gap <= BOUNDS[policy.model.dtype]:  # NaN is a gap too
        raise ModelUnsupported(
            f"{type(policy.model).__name__} is not computed right by the trainer: its log-probabilities are {gap:.2g}"
            f" nats from the model's own. Likely causes, from its configuration: {_suspects(policy.model)}"
        )


def probe_samples(model_config: Any, config: SessionConfig) -> list[Sample]:
    """Two samples that share all but their ends, longer than the model's window where the session's calls can be."""
    longest = min(config.max_context_length, getattr(model_config, "max_position_embeddings", None) or SHORT)
    window = window_reached(model_config.to_dict(), longest)
    length = min(max(SHORT, window + 2 * BRANCH), longest)
    shared = tuple(_token(position, model_config.vocab_size) for position in range(length - BRANCH))
    samples = []
    for branch in (1, 2):
        end = tuple(_token(branch * length + position, model_config.vocab_size) for position in range(BRANCH))
        mask, logprobs = (0,) * len(shared) + (1,) * BRANCH, (0.0,) * length
        samples.append(Sample(shared + end, mask, logprobs, advantage=0.0))
    return samples


def _token(position: int, vocabulary: int) -> int:
    return (position * 7919 + 11) % vocabulary


def _own_logprobs(model: Any, sample: Sample, device: torch.device) -> Tensor:
    """Of the trained tokens, by the model's own forward with its own attention."""
    ids_T = torch.tensor(sample.token_ids_T, device=device)
    trees = model.config._attn_implementation  # noqa: SLF001 - transformers can set it, not tell it
    model.set_attn_implementation("eager")
    try:
        logits_KV = model(ids_T[None, :-1], use_cache=False, logits_to_keep=BRANCH).logits[0].float()
    finally:
        model.set_attn_implementation(trees)
    return logits_KV.log_softmax(-1).gather(1, ids_T[-BRANCH:, None])[:, 0]


def _suspects(model: Any) -> str:
    fields = model.config.get_text_config().to_dict()
    found = [
        f"{name}={value!r}"
        for name, value in fields.items()
        if value not in (None, False, 0, 1.0, [], {}) and any(word in name for word in SUSPECTS)
    ]
    return ", ".join(found)[:400] or "none of the fields that are known to matter"
