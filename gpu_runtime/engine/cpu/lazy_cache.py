"""Keys and values of an engine on a CPU, in memory that is zero until a token is written there.

vLLM asks for all of it as an engine starts, filled with zeros: half a second for one GiB of pages
that most sessions never use. The system gives zeros anyway, a page at a time, when a page is first
touched.
"""

import mmap
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


def cache_allocate_lazily() -> None:
    """Have vLLM's workers in this process do so; called before they allocate."""
    from vllm.v1.worker import gpu_model_runner  # of which the one for CPUs is a subclass

    allocate = gpu_model_runner.allocate_kv_cache

    def lazily(*arguments: Any, **options: Any) -> Any:
        with ZerosAsNeeded():
            return allocate(*arguments, **options)

    gpu_model_runner.allocate_kv_cache = lazily


class ZerosAsNeeded(TorchFunctionMode):
    """Within it ``torch.zeros`` of a CPU's bytes takes no memory before it is touched."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """torch's protocol."""
        options = kwargs or {}
        is_row = func is torch.zeros and len(args) == 1 and isinstance(args[0], int)
        is_bytes = (
            is_row and options.keys() == {"dtype", "device"} and options["dtype"] == torch.int8
        )
        if is_bytes and torch.device(options["device"]).type == "cpu":
            return zeros_as_needed(args[0])
        return func(*args, **options)


def zeros_as_needed(size_bytes: int) -> Tensor:
    """int8 ``[size_bytes]``, of this process alone."""
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(memory, dtype=torch.int8)
