"""Weights from the trainer's memory right into the layout in which vLLM multiplies on a CPU: one pass over the bytes.

vLLM's own reload builds each layer anew, copies into it, packs that for oneDNN and copies once more. Here the packing
reads what the trainer lent or wrote where it lies, which is in the order of the layers: q, k and v (gate and up) are
neighbours there and rows of one matrix here.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

# Models whose parameters in vLLM are the rows of Hugging Face's, one under the other, and nothing else.
ARCHITECTURES = {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}


def weights_repack(model: nn.Module, tensors: Mapping[str, Tensor]) -> bool:
    """Make ``tensors`` (Hugging Face names) the weights of a vLLM model on one CPU.

    False, with nothing changed, for a model that is not known to be laid out so, or other tensors than its own.
    """
    if type(model).__name__ not in ARCHITECTURES:
        return False
    sources = {name: _sources(model, name, tensors) for name, _ in model.named_parameters()}
    used = [source for names in sources.values() for source in names]
    # A tied head may have a name of its own in the file; its rows are the embedding's.
    if not all(sources.values()) or set(tensors) - {*used, "lm_head.weight"} or not set(used) <= set(tensors):
        return False
    with torch.no_grad():
        for path, module in model.named_modules():
            parts = {local: sources.get(f"{path}.{local}") for local, _ in module.named_parameters(recurse=False)}
            _take(module, {local: [tensors[name] for name in names or ()] for local, names in parts.items()})
            if module is getattr(model, "lm_head", None):
                # Its packed copy is beside the weight, which tied heads share with the embedding: vLLM 0.32.0's
                # reload leaves the old one there, and logits would silently come from the old head.
                dispatch_cpu_unquantized_gemm(module, remove_weight=False)
            elif parts and module.weight.numel() and hasattr(module, "cpu_linear"):
                module.cpu_linear = None  # of an embedding, which looks up rows and multiplies nothing
    return True


def _sources(model: nn.Module, name: str, tensors: Mapping[str, Tensor]) -> list[str]:
    """The names in the file whose rows make up vLLM's parameter ``name``."""
    if name in tensors:
        return [name]
    for fused, pieces in model.packed_modules_mapping.items():
        if f".{fused}." in name:
            return [name.replace(f".{fused}.", f".{piece}.") for piece in pieces]
    return []


def _take(module: nn.Module, parts: Mapping[str, Sequence[Tensor]]) -> None:
    for local, pieces in parts.items():
        parameter = getattr(module, local)
        if pieces and not parameter.numel():  # vLLM dropped the plain weight after it had packed it
            module.cpu_linear = None  # free the old packed weight first: the new one then takes its warm pages
            module.weight = nn.Parameter(_fused(pieces), requires_grad=False)
            dispatch_cpu_unquantized_gemm(module, remove_weight=True)
            continue
        row = 0
        for piece in pieces:
            parameter.data[row : row + len(piece)].copy_(piece)
            row += len(piece)


def _fused(pieces: Sequence[Tensor]) -> Tensor:
    """The pieces as one matrix; a view of the file where they are neighbours in it."""
    first = pieces[0]
    ends = [piece.data_ptr() + piece.nbytes for piece in pieces]
    if all(end == piece.data_ptr() for end, piece in zip(ends, pieces[1:], strict=False)):
        return first.as_strided((sum(map(len, pieces)), *first.shape[1:]), first.stride())
    return torch.cat(list(pieces))
