"""Handles reach the engine whole and name its own number of the trainer's device. What needs a GPU
is in tests/gpu.
"""

from pathlib import Path

import pytest
import torch
from torch.multiprocessing.reductions import rebuild_cuda_tensor

from gpu_runtime.weights import cuda_ipc

# As torch's reduce_tensor makes them for a CUDA tensor: type, size, stride, offset, storage type,
# dtype, device, ...
ARGUMENTS = (
    torch.Tensor,
    (2, 3),
    (3, 1),
    0,
    torch.UntypedStorage,
    torch.bfloat16,
    1,
    b"handle",
    12,
    0,
    False,
)


def test_a_device_keeps_its_identity_and_gets_the_number_that_it_has_here() -> None:
    here = cuda_ipc.arguments_here(ARGUMENTS, "GPU-b", {"GPU-b": 0, "GPU-a": 1})
    assert here == (*ARGUMENTS[:6], 0, *ARGUMENTS[7:])


def test_a_device_that_the_engine_does_not_see_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"GPU-c is not among .*GPU-a"):
        cuda_ipc.arguments_here(ARGUMENTS, "GPU-c", {"GPU-a": 0})


def test_the_number_stands_where_torch_takes_it() -> None:
    names = rebuild_cuda_tensor.__code__.co_varnames[: rebuild_cuda_tensor.__code__.co_argcount]
    assert names[cuda_ipc.DEVICE] == "storage_device"


def test_handles_are_read_as_they_were_written(tmp_path: Path) -> None:
    handles = [("embed_tokens.weight", "GPU-a", rebuild_cuda_tensor, ARGUMENTS)]
    cuda_ipc.handles_save(handles, tmp_path / "handover")
    assert cuda_ipc.handles_load(tmp_path / "handover") == handles
    assert [path.name for path in (tmp_path / "handover").iterdir()] == [cuda_ipc.NAME]


def test_weights_on_two_devices_are_rebuilt_each_on_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda_ipc.handles_save(
        [(name, uuid, rebuild, ARGUMENTS) for name, uuid in (("a", "GPU-a"), ("b", "GPU-b"))],
        tmp_path,
    )
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(cuda_ipc, "device_uuid", lambda number: ("GPU-b", "GPU-a")[number])
    assert dict(cuda_ipc.handles_read(tmp_path)) == {"a": 1, "b": 0}


def test_weights_made_for_a_hand_over_lie_in_the_same_memory_each_time() -> None:
    """Torch does not give memory back that several engines have read: nothing that was exported may
    be let go.
    """
    buffers = cuda_ipc.ExportBuffers()
    first = buffers.fill("a", torch.arange(6.0).reshape(2, 3).T)
    again = buffers.fill("a", torch.full((3, 2), 7.0))
    assert (again.data_ptr(), again.is_contiguous()) == (first.data_ptr(), True)
    assert torch.equal(first, torch.full((3, 2), 7.0))
    assert buffers.fill("b", first).data_ptr() != first.data_ptr()


def rebuild(*arguments):
    """In place of torch's, which needs the device."""
    return arguments[cuda_ipc.DEVICE]
