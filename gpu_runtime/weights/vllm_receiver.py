"""Trainer to engine, in place: the part that runs inside vLLM's worker process.

vLLM mixes a subclass of ``WeightReceiver`` into its worker class (engine/vllm_worker.py), and the
engine calls ``take_weights`` on every worker through ``collective_rpc``.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from gpu_runtime.weights import cuda_ipc
from gpu_runtime.weights.handover_folder import folder_is_whole
from gpu_runtime.weights.reader import MappedWeights, folder_tensors

if TYPE_CHECKING:
    from vllm.config import ParallelConfig
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner


class WeightReceiver:
    """Methods added to a vLLM worker."""

    # The worker's own. Declared and not set: vLLM refuses a mix-in that has an attribute of the
    # worker's.
    model_runner: "GPUModelRunner"  # on a CPU a subclass of it
    device: torch.device
    parallel_config: "ParallelConfig"
    # with the configuration set that some kernels for GPUs ask for
    reload_weights: Callable[..., None]

    mapped_weights = MappedWeights()  # a process has one worker, and it one model

    def take_weights(self, folder: str) -> str:
        """Serve the weights that the trainer left in ``folder``, or those of a Hugging Face folder,
        from now on.

        Returns the way it took: "repacked" or, through vLLM's own loaders, "reloaded" or (on a GPU)
        "opened"; or "refused" and why, for weights that the model's loader does not know what to do
        with.
        """
        path = Path(folder)
        try:
            if folder_is_whole(path):
                return self.tensors_take(self._model_tensors(path))
            if (path / cuda_ipc.NAME).exists():
                self.reload_weights(weights_iterator=cuda_ipc.handles_read(path))
                return "opened"
            return self.tensors_take(self.mapped_weights.of(path))
        except (KeyError, ValueError, AssertionError, AttributeError) as error:
            return f"refused: {type(error).__name__}: {error}"

    def tensors_take(self, tensors: dict[str, torch.Tensor]) -> str:
        """Make ``tensors`` (Hugging Face names) the weights of the model; the way it took."""
        self.reload_weights(weights_iterator=iter(tensors.items()))
        return "reloaded"

    def _model_tensors(self, folder: Path) -> dict[str, torch.Tensor]:
        dtype = next(self.model_runner.get_model().parameters()).dtype
        try:
            tensors = folder_tensors(folder, dtype)
        except OSError as error:
            raise ValueError(str(error)) from error
        is_tied = getattr(
            self.model_runner.model_config.hf_text_config, "tie_word_embeddings", False
        )
        head = tensors.get("lm_head.weight") if is_tied else None
        embedding = next(
            (it for name, it in tensors.items() if name.endswith("embed_tokens.weight")), None
        )
        if head is not None and embedding is not None and not torch.equal(head, embedding):
            raise ValueError(
                "these weights have a head of their own, and the base's is that of its embeddings"
            )
        return tensors
