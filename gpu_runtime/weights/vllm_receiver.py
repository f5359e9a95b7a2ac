"""Trainer to engine, in place: the part that runs inside vLLM's worker process.

vLLM mixes a subclass of ``WeightReceiver`` into its worker class (engine/vllm_worker.py), and the engine calls
``take_weights`` on every worker through ``collective_rpc``.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from gpu_runtime.health.stack_dumps import stacks_register

from . import cuda_ipc
from .handover_folder import handover_part
from .packed_loader import awaits_weights, weights_arrived
from .packing import WeightPacking, linear_dispatch
from .reader import MappedWeights, folder_tensors

if TYPE_CHECKING:
    from vllm.config import ParallelConfig
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner


class WeightReceiver:
    """Methods added to a vLLM worker."""

    # The worker's own. Declared and not set: vLLM refuses a mix-in that has an attribute of the worker's.
    model_runner: "GPUModelRunner"  # on a CPU a subclass of it
    device: torch.device
    parallel_config: "ParallelConfig"
    reload_weights: Callable[..., None]  # with the configuration set that some kernels for GPUs ask for

    mapped_weights = MappedWeights()  # a process has one worker, and it one model

    def stacks_register(self, folder: str) -> None:
        """From now on this process is among those whose stacks are read; ``folder`` holds their names.

        They are read by pid, on the runtime's node.
        """
        if self.parallel_config.node_rank == 0:
            stacks_register(Path(folder), "engine")

    def take_weights(self, folder: str) -> str:
        """Serve the weights that the trainer left in ``folder``, named as in the Hugging Face folder, from now on.

        Returns the way it took: "repacked" or, through vLLM's own loaders, "reloaded" or (on a GPU) "opened"; or
        "refused" and why, for weights that the model's loader does not know what to do with.
        """
        path = handover_part(Path(folder), self.parallel_config.node_rank)
        try:
            if (path / cuda_ipc.NAME).exists():
                self.reload_weights(weights_iterator=cuda_ipc.handles_read(path))
                return "opened"
            return self._tensors_take(self.mapped_weights.of(path))
        except (KeyError, ValueError, AssertionError, AttributeError) as error:
            return f"refused: {type(error).__name__}: {error}"

    def take_model(self, folder: str) -> str:
        """Serve the weights of a Hugging Face folder from now on; returns what ``take_weights`` does."""
        try:
            dtype = next(self.model_runner.get_model().parameters()).dtype
            tensors = folder_tensors(Path(folder), dtype)
            is_tied = getattr(self.model_runner.model_config.hf_text_config, "tie_word_embeddings", False)
            head = tensors.get("lm_head.weight") if is_tied else None
            if head is not None and not torch.equal(head, tensors["model.embed_tokens.weight"]):
                raise ValueError("these weights have a head of their own, and the base's is that of its embeddings")
            return self._tensors_take(tensors)
        except (KeyError, ValueError, AssertionError, AttributeError, OSError) as error:
            return f"refused: {type(error).__name__}: {error}"

    def _tensors_take(self, tensors: dict[str, torch.Tensor]) -> str:
        model = self.model_runner.get_model()
        is_whole = self.parallel_config.tensor_parallel_size == 1  # else vLLM's loaders take our part
        if self.device.type == "cpu" and is_whole and WeightPacking(model).take(tensors):
            weights_arrived(model)
            return "repacked"
        if awaits_weights(model):
            return "refused: these are not all of the weights that this engine was started without"
        self.reload_weights(weights_iterator=iter(tensors.items()))
        head = getattr(model, "lm_head", None)
        # vLLM 0.32.0 on a CPU: with tied embeddings the reload refreshes embed_tokens.weight but not the prepacked copy
        # that the head multiplies with, so logits would silently come from the old head.
        if head is not None and hasattr(head, "cpu_linear"):
            linear_dispatch(head, remove_weight=False)
        return "reloaded"
