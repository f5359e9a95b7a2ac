"""What vLLM's worker on a CPU gets besides: first weights, seeds, draws, layers, and adapters made
right.
"""

from typing import Any

import torch

from gpu_runtime.engine.prompt_rows import rows_install
from gpu_runtime.engine.vllm_worker import EngineWorker
from gpu_runtime.processes.absent_vision import vision_stand_in
from gpu_runtime.weights.packed_loader import awaits_weights, weights_arrived
from gpu_runtime.weights.packing import WeightPacking, linear_dispatch, linears_pack_as_loaded

from .adapter_kernels import kernels_replace
from .expert_kernels import experts_install
from .flat_layers import layers_flatten
from .inverse_sampling import sampling_install
from .lazy_cache import cache_allocate_lazily
from .rotary_heads import rotary_install
from .seeded_prompts import seeds_keep

# When a worker's process imports this: before it loads weights and allocates.
linears_pack_as_loaded()
cache_allocate_lazily()
experts_install()
rotary_install()
vision_stand_in()


class CpuWorker(EngineWorker):
    """Mixed into the worker's class of an engine on a CPU."""

    def runner_extend(self) -> None:
        """Install what is for a CPU alone."""
        seeds_keep(self.model_runner)
        sampling_install(self.model_runner)
        if self.model_runner.lora_config is None:
            self.layers_flatten()
        else:
            kernels_replace()
            rows_install(self.model_runner)

    def layers_flatten(self) -> tuple[int, bool]:
        """Let the model's layers compute with less Python, where they are known; again changes
        nothing.

        Their number, and whether a decoding step is one call for all of them.
        """
        return layers_flatten(self.model_runner.get_model())

    def tensors_take(self, tensors: dict[str, torch.Tensor]) -> str:
        """As on a GPU where the model's layout is not known, or it is one part of several; else by
        ``packing.py``.
        """
        model = self.model_runner.get_model()
        # else vLLM's loaders take our part
        is_whole = self.parallel_config.tensor_parallel_size == 1
        if is_whole and WeightPacking(model).take(tensors):
            weights_arrived(model)
            return "repacked"
        if awaits_weights(model):
            return "refused: these are not all of the weights that this engine was started without"
        way = super().tensors_take(tensors)
        text: Any = model.get_language_model() if hasattr(model, "get_language_model") else model
        head = getattr(text, "lm_head", None)
        # vLLM 0.32.0: with tied embeddings the reload refreshes embed_tokens.weight but not the
        # packed copy that the head multiplies with, so that logits would come from the old head.
        if head is not None and hasattr(head, "cpu_linear"):
            linear_dispatch(head, remove_weight=False)
        return way
