"""Weights from trainer to engine on GPUs, without a way through host memory: CUDA IPC.

The trainer's first rank leaves handles to its weights in the hand-over folder; the engine's worker opens them and
copies from device to device, within one GPU or between two (``placement.py`` lets each part see the other's). Trainer
and engine take turns, so the memory behind a handle stands still while it is read: the trainer holds it until its next
hand-over.

A handle is what ``torch.multiprocessing`` makes of a CUDA tensor. It names the device by its number in the process that
made it; the same device has another number in the engine, so it travels with its UUID.
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


def handles_write(weights: Iterable[tuple[str, Tensor]], folder: Path) -> list[Tensor]:
    """Export contiguous CUDA tensors. Returns them: they must live, unchanged, until the engine has read them."""
    from torch.multiprocessing.reductions import reduce_tensor

    kept: list[Tensor] = []
    handles: list[Handle] = []
    for name, weight in weights:
        tensor = weight.detach().contiguous()
        rebuild, arguments = reduce_tensor(tensor)
        handles.append((name, device_uuid(tensor.device.index), rebuild, arguments))
        kept.append(tensor)
    torch.cuda.synchronize()  # what wrote the tensors is done before another process reads them
    handles_save(handles, folder)
    return kept


def handles_read(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """The tensors behind the handles, on the devices where they lie. Raises RuntimeError for one not visible here."""
    numbers = {device_uuid(number): number for number in range(torch.cuda.device_count())}
    for name, uuid, rebuild, arguments in handles_load(folder):
        yield name, rebuild(*arguments_here(arguments, uuid, numbers))


def arguments_here(arguments: tuple[Any, ...], uuid: str, numbers: Mapping[str, int]) -> tuple[Any, ...]:
    """``arguments`` with the device's number in this process. Raises RuntimeError for a device that it does not see."""
    if uuid not in numbers:
        raise RuntimeError(f"the trainer's GPU {uuid} is not among those that the engine sees: {sorted(numbers)}")
    return (*arguments[:DEVICE], numbers[uuid], *arguments[DEVICE + 1 :])


def handles_save(handles: list[Handle], folder: Path) -> None:
    """Into the hand-over folder, which only this user's processes can write, whole or not at all."""
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
