"""Trainer to engine, in place: the part that runs inside vLLM's worker process.

vLLM mixes ``WeightReceiver`` into its worker class (``worker_extension_cls``) and the engine calls ``take_weights`` on
every worker through ``collective_rpc``.
"""

from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import safe_open
from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

from gpu_runtime.stacks import stacks_on_signal

from . import ipc


class WeightReceiver:
    """Methods added to a vLLM worker; ``self.model_runner`` and ``self.vllm_config`` are the worker's own."""

    def stacks_on_signal(self, folder: str) -> None:
        """From now on SIGUSR1 makes this process write its threads' stacks into ``folder``."""
        stacks_on_signal(Path(folder), "engine")

    def take_weights(self, folder: str) -> None:
        """Load every tensor of ``folder``'s safetensors files, named as in the Hugging Face folder, in place."""
        if (Path(folder) / ipc.NAME).exists():
            self.model_runner.reload_weights(weights_iterator=ipc.handles_read(Path(folder)))
            return
        self.model_runner.reload_weights(weights_iterator=_tensors(Path(folder)))
        model = self.model_runner.get_model()
        head = getattr(model, "lm_head", None)
        # vLLM 0.32.0 on a CPU: with tied embeddings the reload refreshes embed_tokens.weight but not the prepacked copy
        # that the head multiplies with, so logits would silently come from the old head.
        if head is not None and hasattr(head, "cpu_linear"):
            dispatch_cpu_unquantized_gemm(head, remove_weight=False)


def _tensors(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - a safetensors handle is no mapping
                yield name, tensors.get_tensor(name)
