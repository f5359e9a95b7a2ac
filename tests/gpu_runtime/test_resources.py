"""What a runtime samples of its machine: its own processes, the container's limits, the GPUs that
it sees.
"""

import ctypes
import logging
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_runtime.health import resources
from gpu_runtime.health.resources import ResourceSampler, Usage
from gpu_runtime.health.status import Status
from tinkerscript.processes.nvml import Nvml, nvml_open
from tinkerscript.wire.reading.resources import ResourceSample


def put(pointer: Any, **fields: int) -> None:
    """Set fields of what ``ctypes.byref`` points to."""
    for name, value in fields.items():
        setattr(pointer._obj, name, value)  # noqa: SLF001 - ctypes has no other name for it


class Driver:
    """Two GPUs as NVML shows them, of which the second reports its memory alone."""

    names: tuple[str, ...] = ("NVIDIA H100", "GPU of 2010")
    uuids = (b"GPU-1a2b", b"GPU-1c3d")

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        put(count, value=len(self.names))
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: ctypes.c_uint, device: Any) -> int:
        put(device, value=index.value + 1)
        return 0 if index.value < len(self.names) else 6

    def nvmlDeviceGetUUID(self, device: ctypes.c_void_p, uuid: Any, size: ctypes.c_uint) -> int:
        uuid.value = self.uuids[device.value - 1]
        return 0

    def nvmlDeviceGetHandleByUUID(self, name: bytes, device: Any) -> int:
        put(device, value=2)
        return 0 if name == b"MIG-part-of-2" else 6

    def nvmlDeviceGetName(self, device: ctypes.c_void_p, name: Any, size: ctypes.c_uint) -> int:
        name.value = self.names[device.value - 1].encode()
        return 0

    def nvmlDeviceGetUtilizationRates(self, device: ctypes.c_void_p, busy: Any) -> int:
        put(busy, gpu=87)
        return 0 if device.value == 1 else 3

    def nvmlDeviceGetMemoryInfo(self, device: ctypes.c_void_p, memory: Any) -> int:
        put(memory, used=5, total=80)
        return 0

    def nvmlDeviceGetPowerUsage(self, device: ctypes.c_void_p, power_mw: Any) -> int:
        put(power_mw, value=312_500)
        return 0 if device.value == 1 else 3


class Alike(Driver):
    """Two GPUs of one kind."""

    names = ("NVIDIA H100", "NVIDIA H100")


class Older(Driver):
    """A library that does not know a call, and a device that has no number for its memory."""

    nvmlDeviceGetPowerUsage = None

    def nvmlDeviceGetMemoryInfo(self, device: ctypes.c_void_p, memory: Any) -> int:
        put(memory, used=2**64 - 1, total=80)
        return 0


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        (None, Driver.names),
        ("1,0", Driver.names[::-1]),
        ("GPU-1c, 0", Driver.names[::-1]),
        ("MIG-part-of-2", Driver.names[1:]),
        ("1,-1,0", Driver.names[1:]),  # CUDA's list ends before the first name of no device
        ("GPU-1", ()),  # of both
        ("", ()),
        ("7,GPU-9", ()),
    ],
)
def test_the_gpus_are_those_that_cuda_shows_this_process(
    visible: str | None, names: tuple[str, ...]
) -> None:
    assert tuple(gpu.name for gpu in Nvml(Driver(), visible, "PCI_BUS_ID").sample()) == names


@pytest.mark.parametrize(
    ("visible", "driver", "shown"), [("1", Driver(), 0), ("1", Alike(), 1), ("GPU-1c", Driver(), 1)]
)
def test_a_number_in_an_order_that_the_driver_does_not_know_shows_no_gpu_of_another_kind(
    visible: str, driver: Driver, shown: int
) -> None:
    assert len(Nvml(driver, visible, None).sample()) == shown


def test_what_a_gpu_does_not_report_is_none() -> None:
    new, old = Nvml(Driver(), None).sample()
    assert (new.busy, new.memory_bytes, new.memory_total_bytes, new.power_w) == (0.87, 5, 80, 312.5)
    assert (old.busy, old.memory_bytes, old.power_w) == (None, 5, None)


def test_what_a_library_does_not_know_is_none() -> None:
    gpu, _ = Nvml(Older(), None).sample()
    assert (gpu.busy, gpu.memory_bytes, gpu.memory_total_bytes, gpu.power_w) == (
        0.87,
        None,
        80,
        None,
    )


def test_a_machine_without_the_driver_has_no_gpu() -> None:
    assert nvml_open("libno-such-driver.so.1") is None


def test_a_sample_is_of_this_process_and_its_machine(tmp_path) -> None:
    usage = Usage(tmp_path)
    until = time.process_time() + 0.05  # the kernel counts in ticks of 0.01 s
    while time.process_time() < until:
        """Busy."""
    sample = usage.sample(None)
    assert 0 < sample.cpu_cores <= sample.cores + 1 and sample.gpus == []
    assert 1_000_000 < sample.memory_bytes < sample.memory_total_bytes
    assert sample.memory_used_bytes <= sample.memory_total_bytes
    assert 0 <= sample.disk_free_bytes <= sample.disk_total_bytes


def test_a_containers_limits_count(tmp_path) -> None:
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("400\n")
    (tmp_path / "memory.stat").write_text("anon 90\nfile 310\ninactive_file 300\nactive_file 10\n")
    assert resources._cores(tmp_path) == 0.5  # noqa: SLF001
    assert resources._memory(tmp_path) == (100, 1000), "files that may be dropped are not used"  # noqa: SLF001
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert resources._cores(tmp_path) >= 1  # noqa: SLF001
    assert resources._memory(tmp_path)[1] > 1000  # noqa: SLF001


def test_a_sample_goes_with_one_heartbeat_beside_the_deadline_of_the_phase(tmp_path) -> None:
    status, delivered = Status(), threading.Event()

    def deliver(sample: ResourceSample) -> None:
        status.sampled(sample)
        delivered.set()

    with ResourceSampler(tmp_path, deliver):
        assert delivered.wait(30)
    first, second = status.snapshot(), status.snapshot()
    assert first.resources is not None and second.resources is None
    assert first.deadline_s == 840.0


def test_a_disk_that_cannot_be_asked_ends_no_sampling_and_is_told_of_once(
    tmp_path, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(resources, "SAMPLE_S", 0.01)
    asked = SimpleNamespace(times=0)
    real, delivered = resources.psutil.disk_usage, threading.Event()

    def disk_usage(path: str) -> Any:
        asked.times += 1
        if asked.times <= 3:
            raise OSError("no such device")
        return real(path)

    monkeypatch.setattr(resources.psutil, "disk_usage", disk_usage)
    with (
        caplog.at_level(logging.WARNING),
        ResourceSampler(tmp_path, lambda sample: delivered.set()),
    ):
        assert delivered.wait(30)
    assert caplog.text.count("no such device") == 1
