"""Keys and values take memory as tokens are written, and are zero before."""

from pathlib import Path

import torch

from gpu_runtime.engine.cpu.lazy_cache import ZerosAsNeeded, zeros_as_needed

SIZE = 256 << 20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_zeros_take_memory_where_they_are_written_alone() -> None:
    before = resident_bytes()
    with ZerosAsNeeded():
        zeros = torch.zeros(SIZE, dtype=torch.int8, device=torch.device("cpu"))
    view = zeros.view(torch.float32).view(64, -1)
    view[3, :1000] = 1.5
    assert view[3].sum() == 1500.0 and not view[2, :1000].any() and zeros.numel() == SIZE
    assert resident_bytes() - before < SIZE // 8


def test_other_zeros_are_torchs_own() -> None:
    with ZerosAsNeeded():
        assert torch.zeros(2, 3).shape == (2, 3)
        assert torch.zeros(4, dtype=torch.int64, device="cpu").dtype == torch.int64
        assert torch.zeros(4, dtype=torch.int8, device="meta").is_meta


def test_a_tensor_keeps_its_memory() -> None:
    halves = [zeros_as_needed(1 << 20)[:8].fill_(n) for n in range(4)]
    assert [int(each.sum()) for each in halves] == [0, 8, 16, 24]
