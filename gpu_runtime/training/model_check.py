"""The trainer's log-probabilities against the model's own forward, on packed rows, before anything
is trained.

The trainer calls the decoder with an attention of its own and computes log-probabilities itself.
Whatever a model does beside that (a window, a cap, a factor on its logits) shows here as a gap, and
the model is refused by name.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpu_runtime.errors import ModelUnsupported
from gpu_runtime.model_interfaces import Datum
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.losses import TARGETS
from tinkerscript.wire.training.model_refusals import window_reached

from .policy import Policy
from .rows.packing import RowKind, pack, pack_row
from .rows.tensors import RowTensors

SHORT = 48  # tokens of a probe where no window asks for more
BRANCH = 8  # targets at the end of each of the probes
SHORTER = 5  # tokens by which one of them is
# Mean difference in nats. float32: rounding is under 1e-5. bfloat16: two attention kernels differ
# by 0.03 on average.
BOUNDS = {torch.float32: 1e-4, torch.bfloat16: 0.15}
# Words in the names of fields that change what a layer or the head computes.
SUSPECTS = (
    "window",
    "softcap",
    "scal",
    "multiplier",
    "sink",
    "chunk",
    "layer_types",
    "bias",
    "norm",
    "rotary",
)


# Of a model's code that is called in a way that its authors did not foresee.
FAILURES = (ModelUnsupported, TypeError, ValueError, RuntimeError, AttributeError, IndexError)


@torch.no_grad()
def policy_verify(policy: Policy, config: SessionConfig, device: torch.device) -> None:
    """Raises ModelUnsupported when the two differ by more than rounding.

    A model that is computed wrong over trees reads its timelines whole from here on, side by side,
    and one by one where the padding of one would change another.
    """
    data = probe_data(policy.model.config.get_text_config(), config)
    expected_K = torch.cat([_own_logprobs(policy.model, datum, device) for datum in data])
    gap, why = math.nan, ""
    for kind in list(RowKind)[list(RowKind).index(policy.kind) :]:
        if kind is not policy.kind:
            policy.rows_become(kind, why)
        try:
            gap = _gap(policy, data, expected_K)
        except FAILURES as failure:
            if not kind.shares:
                raise
            why = f"over {kind} it fails: {type(failure).__name__}: {str(failure)[:200]}"
            continue
        if gap <= BOUNDS[policy.model.dtype]:  # NaN is a gap too
            return
        why = f"over {kind} its log-probabilities are {gap:.2g} nats from its own"
    raise ModelUnsupported(
        f"{type(policy.model).__name__} is not computed right by the trainer: its "
        f"log-probabilities are {gap:.2g}"
        " nats from the model's own. Likely causes, from its configuration: "
        f"{_suspects(policy.model)}"
    )


def _gap(policy: Policy, data: Sequence[Datum], expected_K: Tensor) -> float:
    """Mean difference in nats over the targets of ``data``, by the rows that a step would have."""
    device = expected_K.device
    rows = pack(
        data, sum(len(datum.token_ids_N) + SHORT for datum in data), range(len(data)), policy.kind
    )
    found = dict[int, Tensor]()
    for indices in rows:
        row = pack_row(data, indices, policy.kind)
        scores_K = policy(RowTensors.of(row, data, device))
        datum_K = torch.from_numpy(row.datum_K).to(device)
        found |= {index: scores_K[datum_K == index] for index in indices}
    found_K = torch.cat([found[index] for index in range(len(data))])
    return (found_K - expected_K).abs().mean().item()


def probe_data(model_config: Any, config: SessionConfig) -> list[Datum]:
    """Three sequences that share all but their ends, longer than the model's window where the
    session's calls can be.
    """
    longest = min(
        config.max_context_length, getattr(model_config, "max_position_embeddings", None) or SHORT
    )
    window = window_reached(model_config.to_dict(), longest)
    length = min(max(SHORT, window + 2 * BRANCH), longest)
    shared = tuple(_token(position, model_config.vocab_size) for position in range(length - BRANCH))
    data = []
    # The last is shorter: padded to the others' length, or forking before them.
    for branch, kept in ((1, length), (2, length), (3, length - SHORTER)):
        end = tuple(
            _token(branch * length + position, model_config.vocab_size)
            for position in range(BRANCH)
        )
        begun = shared[: max(1, kept - BRANCH)]
        ids_T = np.array(begun + end)
        counted = np.arange(1, len(ids_T)) >= len(begun)
        data.append(Datum(ids_T[:-1], {TARGETS: ids_T[1:]}, counted))
    return data


def _token(position: int, vocabulary: int) -> int:
    return (position * 7919 + 11) % vocabulary


def _own_logprobs(model: Any, datum: Datum, device: torch.device) -> Tensor:
    """Of the targets that count, by the model's own forward with its own attention."""
    ids_N = torch.tensor(datum.token_ids_N, device=device)
    targets_K = torch.tensor(datum.loss_inputs[TARGETS][-BRANCH:], device=device)
    trees = model.config._attn_implementation  # noqa: SLF001 - transformers can set it, not tell it
    model.set_attn_implementation("eager")
    try:
        logits_KV = model(ids_N[None], use_cache=False, logits_to_keep=BRANCH).logits[0].float()
    finally:
        model.set_attn_implementation(trees)
    return logits_KV.log_softmax(-1).gather(1, targets_K[:, None])[:, 0]


def _suspects(model: Any) -> str:
    fields = model.config.get_text_config().to_dict()
    found = [
        f"{name}={value!r}"
        for name, value in fields.items()
        if value not in (None, False, 0, 1.0, [], {}) and any(word in name for word in SUSPECTS)
    ]
    return ", ".join(found)[:400] or "none of the fields that are known to matter"
