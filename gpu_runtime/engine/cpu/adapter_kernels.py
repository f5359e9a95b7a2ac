"""Adapters in vLLM's worker on a CPU: two matrix products for each that a batch has.

vLLM 0.32 copies A and B once for every row of a batch. Two things of it are wrong besides, seen in
tests/gpu_runtime/test_tinker_engine.py:

- A row without an adapter has the index -1, which its CPU kernels take as the last of the adapters.
- The scores of a prompt are computed from all of its rows, with the adapters of the sampled rows
  only: row i of the prompt gets the head of the batch's i-th sequence, also where the prompt itself
  has no adapter.
"""

from collections.abc import Sequence
from typing import Any

# an adapter's slot and its rows, None for all of the batch
Groups = list[tuple[int, Any]]
GROUPS = "groups_of_rows"  # of the wrapper: of the batch that it has the metadata of


def kernels_replace() -> None:
    """Replace the kernels in this process; called before the first request."""
    from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU

    update = PunicaWrapperCPU.update_metadata

    def updated(wrapper: Any, *values: Any, **named: Any) -> None:
        update(wrapper, *values, **named)
        vars(wrapper)[GROUPS] = groups_of(wrapper.token_lora_indices)

    PunicaWrapperCPU.update_metadata = updated
    PunicaWrapperCPU.add_lora_linear = linear_add
    PunicaWrapperCPU.add_lora_logits = logits_add


def groups_of(indices: Any) -> Groups:
    """The adapters of rows whose slots are ``indices``; those of -1 have none."""
    slots = sorted(set(indices.tolist()) - {-1})
    if len(slots) == 1 and bool((indices == slots[0]).all()):
        return [(slots[0], None)]
    return [(slot, (indices == slot).nonzero().squeeze(1)) for slot in slots]


def linear_add(
    wrapper: Any,
    y: Any,
    x: Any,
    lora_a: Sequence[Any],
    lora_b: Sequence[Any],
    scale: float,
    output_slices: Sequence[int],
    **_: Any,
) -> None:
    """Add the adapters' part to the output ``y`` of a layer whose input is ``x``; its outputs are
    ``output_slices`` side by side, each with an A and a B of its own.
    """
    rows, outputs = x.view(-1, x.shape[-1]), y.view(-1, y.shape[-1])
    for group in vars(wrapper)[GROUPS]:
        first = 0
        for a, b, width in zip(lora_a, lora_b, output_slices, strict=True):
            _add(outputs, rows, a, b, scale, group, first, width)
            first += width


def logits_add(
    wrapper: Any,
    y: Any,
    x: Any,
    lora_a: Any,
    lora_b: Any,
    scale: float,
    **_: Any,
) -> None:
    """Add the adapters' part to the logits ``y`` of the hidden states ``x``."""
    rows, logits = x.view(-1, x.shape[-1]), y.view(-1, y.shape[-1])
    # vLLM pads its logits and B in other ways
    width = min(logits.shape[1], lora_b.shape[-2])
    for group in groups_of(_row_indices(wrapper, x, rows.size(0))):
        _add(logits, rows, lora_a, lora_b, scale, group, 0, width)


def _add(
    y: Any,
    x: Any,
    lora_a: Any,
    lora_b: Any,
    scale: float,
    group: tuple[int, Any],
    first: int,
    width: int,
) -> None:
    """``y[rows, first : first + width] += scale * (x[rows] A^T) B^T``; A and B are [slots, 1, ...].
    A's product is in float32, as on a GPU.
    """
    import torch

    slot, rows = group
    inputs = x if rows is None else x.index_select(0, rows)
    a, b = lora_a[slot].flatten(0, -2), lora_b[slot].flatten(0, -2)
    low = torch.mm(inputs.to(torch.float32), a.to(torch.float32).t()).mul_(scale)
    part = torch.mm(low.to(y.dtype), b[:width].to(y.dtype).t())
    columns = y[:, first : first + width]
    if rows is None:
        columns += part
    else:
        columns.index_add_(0, rows, part)


def _row_indices(wrapper: Any, x: Any, count: int) -> Any:
    """The adapter of each row. Sampled rows are gathered into memory of their own; those of a
    prompt are a slice of the batch's hidden states, whose place says which tokens they are.
    """
    is_slice = x.untyped_storage().nbytes() > x.numel() * x.element_size()
    if not is_slice and count == wrapper.sampler_indices.numel():
        return wrapper.sampler_indices
    first = x.storage_offset() // x.shape[-1]
    return wrapper.token_lora_indices[first : first + count]
