"""Trainer to engine, in place: the part that runs inside vLLM's worker process.

vLLM mixes ``WeightReceiver`` into its worker class (``worker_extension_cls``) and the engine calls ``take_weights`` on
every worker through ``collective_rpc``.
"""

from pathlib import Path

from torch import Tensor
from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

from gpu_runtime.stacks import stacks_on_signal

from . import ipc
from .repack import weights_repack
from .shared import NAME, tensors_map


class WeightReceiver:
    """Methods added to a vLLM worker; ``self.model_runner`` and ``self.device`` are the worker's own."""

    def stacks_on_signal(self, folder: str) -> None:
        """From now on SIGUSR1 makes this process write its threads' stacks into ``folder``."""
        stacks_on_signal(Path(folder), "engine")

    def take_weights(self, folder: str) -> str:
        """Serve the tensors of ``folder``'s weight file, named as in the Hugging Face folder, from now on.

        Answers the way it took: "repacked" or, through vLLM's own loaders, "reloaded" or (on a GPU) "opened".
        """
        if (Path(folder) / ipc.NAME).exists():
            self.model_runner.reload_weights(weights_iterator=ipc.handles_read(Path(folder)))
            return "opened"
        tensors = self._weights_mapped(Path(folder) / NAME)
        model = self.model_runner.get_model()
        if self.device.type == "cpu" and weights_repack(model, tensors):
            return "repacked"
        self.model_runner.reload_weights(weights_iterator=iter(tensors.items()))
        head = getattr(model, "lm_head", None)
        # vLLM 0.32.0 on a CPU: with tied embeddings the reload refreshes embed_tokens.weight but not the prepacked copy
        # that the head multiplies with, so logits would silently come from the old head.
        if head is not None and hasattr(head, "cpu_linear"):
            dispatch_cpu_unquantized_gemm(head, remove_weight=False)
        return "reloaded"

    def _weights_mapped(self, path: Path) -> dict[str, Tensor]:
        """The file's tensors; mapped once for each file, because touching fresh pages costs more than reading them."""
        found = path.stat()
        identity = (found.st_dev, found.st_ino, found.st_size)
        seen = getattr(self, "_weights_seen", None)
        if seen is None or seen[0] != identity:
            self._weights_seen = seen = (identity, tensors_map(path))
        return seen[1]
