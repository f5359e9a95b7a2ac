"""Adapters in vLLM's worker on a CPU, made right where vLLM 0.32 computes something else.

Two things, seen in tests/gpu_runtime/test_tinker_engine.py:

- A row without an adapter has the index -1, which its CPU kernels take as the last of the adapters.
- The scores of a prompt are computed from all of its rows, with the adapters of the sampled rows
  only: row i of the prompt gets the head of the batch's i-th sequence, also where the prompt itself
  has no adapter.
"""

from typing import Any


def kernels_replace() -> None:
    """Replace the two kernels in this process; called before the first request."""
    from vllm.lora.ops.torch_ops import lora_ops
    from vllm.lora.punica_wrapper import punica_cpu

    lora_ops.bgmv_shrink = shrink
    punica_cpu.bgmv_shrink = shrink
    punica_cpu.PunicaWrapperCPU.add_lora_logits = logits_add


def shrink(inputs: Any, weights: Any, output: Any, indices: Any, scaling: float = 1.0) -> None:
    """``output_BR = scaling * weights[indices_B] inputs_BI``, and 0 in rows whose index is -1."""
    import torch

    selected = weights[indices].to(dtype=output.dtype)
    if selected.dim() == 4:
        selected = selected.squeeze(dim=1)
    products = scaling * torch.einsum("bi, boi -> bo", inputs.to(dtype=output.dtype), selected)
    output[:, : products.shape[1]] = products * (indices >= 0).unsqueeze(1)


def logits_add(
    wrapper: Any,
    y: Any,
    x: Any,
    lora_a: Any,
    lora_b: Any,
    scale: float,
    *,
    buffer: Any = None,
    **_: Any,
) -> None:
    """Add the adapters' part to the logits ``y`` of the hidden states ``x``."""
    import torch
    from vllm.lora.ops.torch_ops import lora_ops

    rows, logits = x.view(-1, x.shape[-1]), y.view(-1, y.shape[-1])
    indices = _row_indices(wrapper, x, rows.size(0))
    buffer = torch.zeros((rows.size(0), lora_b.size(-1)), dtype=torch.float32, device=x.device)
    shrink(rows, lora_a, buffer, indices, scale)
    lora_ops.bgmv_expand(buffer, lora_b, logits, indices, add_inputs=True)


def _row_indices(wrapper: Any, x: Any, count: int) -> Any:
    """The adapter of each row. Sampled rows are gathered into memory of their own; those of a
    prompt are a slice of the batch's hidden states, whose place says which tokens they are.
    """
    is_slice = x.untyped_storage().nbytes() > x.numel() * x.element_size()
    if not is_slice and count == wrapper.sampler_indices.numel():
        return wrapper.sampler_indices
    first = x.storage_offset() // x.shape[-1]
    return wrapper.token_lora_indices[first : first + count]
