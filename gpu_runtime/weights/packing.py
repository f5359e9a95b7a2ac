"""Weights from the trainer's memory right into the layout in which vLLM multiplies on a CPU: one
pass over the bytes.

vLLM's own reload builds each layer anew, copies into it, packs that for oneDNN and copies once
more. Here the packing reads what the trainer exported or wrote without a copy, and writes where the
layer multiplies from.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from vllm.model_executor.layers import utils
from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding

from .packed_linear import Job, PackedLinear, linear_pack, panels_write

# Models whose parameters in vLLM are the rows of Hugging Face's, one under the other, and nothing
# else.
ARCHITECTURES = {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}


vllm_dispatch = utils.dispatch_cpu_unquantized_gemm
_left_unwritten = False  # what is dispatched now; a process loads one model at a time


def linears_pack_as_loaded() -> None:
    """Let vLLM give each matrix that it loads to ``packed_linear``, where that can multiply by
    it.
    """
    utils.dispatch_cpu_unquantized_gemm = linear_dispatch


def linear_dispatch(layer: Any, remove_weight: bool) -> None:
    """Choose what ``layer`` multiplies with, from its weight; as vLLM does where it cannot be
    ``packed_linear``.
    """
    weight = layer.weight
    packed = (
        None
        if weight.is_meta or weight.ndim != 2
        else linear_pack(tuple(weight.shape), weight.dtype)
    )
    if packed is None:
        vllm_dispatch(layer, remove_weight)
        return
    if not _left_unwritten:
        panels_write(list(packed.jobs([weight.data])))
    layer.cpu_linear = packed
    if remove_weight:
        layer.weight = nn.Parameter(torch.empty(0, dtype=weight.dtype), requires_grad=False)


@contextmanager
def unwritten() -> Iterator[None]:
    """What is dispatched inside the block has room for its weight and no weight yet:
    ``WeightPacking.take`` follows.
    """
    global _left_unwritten
    _left_unwritten = True
    try:
        yield
    finally:
        _left_unwritten = False


class WeightPacking:
    """The matrices of one vLLM model on one CPU, written in place."""

    def __init__(self, model: nn.Module) -> None:
        # vLLM's: it and its layers have attributes that nn.Module does not declare
        self._model: Any = model

    def fits(self, names: Collection[str]) -> bool:
        """Whether ``take`` knows the model, and its weights are those of these Hugging Face
        names.
        """
        return self._sources(names) is not None

    def take(self, tensors: Mapping[str, Tensor]) -> bool:
        """Make ``tensors`` (Hugging Face names) the weights of the model.

        False, with nothing changed, for a model that is not known to be laid out so, or other
        tensors than its own.
        """
        sources = self._sources(tensors)
        if sources is None:
            return False
        with torch.no_grad():
            jobs: list[Job] = []
            for path, module in self._model.named_modules():
                for local, parameter in module.named_parameters(recurse=False):
                    pieces = [tensors[name] for name in sources.get(f"{path}.{local}", ())]
                    if parameter.numel():
                        _copy(parameter, pieces)
                    else:  # vLLM dropped the plain weight after it had packed it
                        jobs += self._pack(module, pieces)
            jobs += self._heads_pack()
            panels_write(jobs)
        return True

    def _heads_pack(self) -> Iterator[Job]:
        """The packed copy that lies beside a plain weight: a head has one, which tied heads share
        with the embedding.

        vLLM 0.32.0's reload leaves the old one there, and logits would silently come from the old
        head. Other layers keep their plain weight where this processor can pack nothing of its type
        (bfloat16 with AVX2 alone): they multiply by it.
        """
        head: Any = getattr(self._model, "lm_head", None)
        for module in self._model.modules():
            # A layer that is wrapped for adapters lends its attributes to the wrapper, which has no
            # weight of its own.
            if (
                hasattr(module, "base_layer")
                or not hasattr(module, "cpu_linear")
                or not module.weight.numel()
            ):
                continue
            if module is head:
                yield from self._pack(module, [module.weight.data])
            elif isinstance(module, VocabParallelEmbedding):
                module.cpu_linear = None  # it looks up rows and multiplies nothing

    def _pack(self, module: Any, pieces: Sequence[Tensor]) -> Iterator[Job]:
        """What is left to do until ``pieces`` are the matrix that ``module`` multiplies with."""
        if isinstance(module.cpu_linear, PackedLinear):
            yield from module.cpu_linear.jobs(pieces)
            return
        had_weight = module.weight.numel() > 0
        # free the old packed weight first: the new one then takes its warm pages
        module.cpu_linear = None
        if not had_weight:
            module.weight = nn.Parameter(_fused(pieces), requires_grad=False)
        linear_dispatch(module, remove_weight=not had_weight)

    def _sources(self, tensors: Collection[str]) -> dict[str, list[str]] | None:
        """The names in the file whose rows make up each of vLLM's parameters; None if they are not
        each other's.
        """
        if type(self._model).__name__ not in ARCHITECTURES:
            return None
        sources = {
            name: self._source(name.replace(".base_layer.", "."), tensors)
            for name, _ in self._model.named_parameters()
        }
        used = {source for names in sources.values() for source in names}
        # A tied head may have a name of its own in the file; its rows are the embedding's.
        is_whole = (
            all(sources.values())
            and used <= set(tensors)
            and set(tensors) - used <= {"lm_head.weight"}
        )
        return sources if is_whole else None

    def _source(self, name: str, tensors: Collection[str]) -> list[str]:
        if name in tensors:
            return [name]
        for fused, pieces in self._model.packed_modules_mapping.items():
            if f".{fused}." in name:
                return [name.replace(f".{fused}.", f".{piece}.") for piece in pieces]
        return []


def _copy(parameter: nn.Parameter, pieces: Sequence[Tensor]) -> None:
    row = 0
    for piece in pieces:
        parameter.data[row : row + len(piece)].copy_(piece)
        row += len(piece)


def _fused(pieces: Sequence[Tensor]) -> Tensor:
    """The pieces as one matrix; a view of the file where they are neighbours in it."""
    first = pieces[0]
    is_one_file = len({piece.untyped_storage().data_ptr() for piece in pieces}) == 1
    ends = [piece.data_ptr() + piece.nbytes for piece in pieces]
    if is_one_file and all(
        end == piece.data_ptr() for end, piece in zip(ends, pieces[1:], strict=False)
    ):
        return first.as_strided((sum(map(len, pieces)), *first.shape[1:]), first.stride())
    return torch.cat(list(pieces))
