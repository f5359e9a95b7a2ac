"""Weights from trainer to engine on GPUs, without a way through host memory: CUDA IPC.

The trainer's first rank leaves handles to its weights in the hand-over folder; the engine's worker
opens them and copies from device to device, within one GPU or between two (``placement.py`` lets
each part see the other's). Trainer and engine take turns, so the memory behind a handle stands
still while it is read.

A handle is what ``torch.multiprocessing`` makes of a CUDA tensor. It names the device by its number
in the process that made it; the same device has another number in the engine, so it travels with
its UUID.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

NAME = "weights.ipc"
DEVICE = 6  # index of the device's number among the arguments of torch's rebuild_cuda_tensor

# A weight's name, the UUID of its device, what rebuilds it from its arguments, and those.
Handle = tuple[str, str, Callable[..., Tensor], tuple[Any, ...]]


class ExportBuffers:
    """Memory for weights that exist only for a hand-over (gathered, or merged with an adapter):
    kept, and filled anew.

    What was exported must not be freed where several processes read it: torch counts one reader of
    a handle, and with more the memory is never given back (pytorch issue 149187).
    """

    def __init__(self) -> None:
        self._kept: dict[str, Tensor] = {}

    def fill(self, name: str, weight: Tensor) -> Tensor:
        """The buffer of this name with the values of ``weight``."""
        kept = self._kept.get(name)
        if kept is None:
            kept = self._kept[name] = weight.clone(memory_format=torch.contiguous_format)
        else:
            kept.copy_(weight)
        return kept


def handles_write(weights: Iterable[tuple[str, Tensor]], folder: Path) -> None:
    """Export contiguous CUDA tensors, which must live as long as this process
    (``ExportBuffers``).
    """
    from torch.multiprocessing.reductions import reduce_tensor

    handles: list[Handle] = []
    for name, weight in weights:
        rebuild, arguments = reduce_tensor(weight.detach())
        handles.append((name, device_uuid(weight.device.index), rebuild, arguments))
    torch.cuda.synchronize()  # what wrote the tensors is done before another process reads them
    handles_save(handles, folder)


def handles_read(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """The tensors behind the handles, on the devices where they lie. Raises RuntimeError for one
    not visible here.
    """
    numbers = {device_uuid(number): number for number in range(torch.cuda.device_count())}
    for name, uuid, rebuild, arguments in handles_load(folder):
        yield name, rebuild(*arguments_here(arguments, uuid, numbers))


def arguments_here(
    arguments: tuple[Any, ...], uuid: str, numbers: Mapping[str, int]
) -> tuple[Any, ...]:
    """``arguments`` with the device's number in this process. Raises RuntimeError for a device that
    it does not see.
    """
    if uuid not in numbers:
        raise RuntimeError(
            f"the trainer's GPU {uuid} is not among those that the engine sees: {sorted(numbers)}"
        )
    return (*arguments[:DEVICE], numbers[uuid], *arguments[DEVICE + 1 :])


def handles_save(handles: list[Handle], folder: Path) -> None:
    """Into the hand-over folder, which only this user's processes can write, whole or not at
    all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{NAME}.partial"
    partial.write_bytes(pickle.dumps(handles))
    partial.replace(folder / NAME)


def handles_load(folder: Path) -> list[Handle]:
    """What ``handles_save`` wrote."""
    return pickle.loads((folder / NAME).read_bytes())


def device_uuid(number: int) -> str:
    """The name of a GPU that is the same in every process."""
    return str(torch.cuda.get_device_properties(number).uuid)
