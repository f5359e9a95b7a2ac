"""What NVIDIA's driver says of the GPUs that this runtime sees, read from its library (NVML) without a package.

Functions and structures: https://docs.nvidia.com/deploy/nvml-api. A call that a device does not support gives None.
"""

import ctypes
import os

from tinkerscript.wire.reading.resources import MAX_GPUS, GpuSample

LIBRARY = "libnvidia-ml.so.1"
SUCCESS = 0
NAME_BYTES = 96


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))  # per cent of the last sampling period


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class Nvml:
    """The driver's library, loaded once. A call of it may take long: not for a thread that others wait for."""

    def __init__(self, library: ctypes.CDLL, visible: str | None) -> None:
        self._library = library
        self._devices = [device for device in map(self._device, self._named(visible)) if device is not None]

    def sample(self) -> list[GpuSample]:
        """Every visible GPU, in the order of CUDA_VISIBLE_DEVICES."""
        return [self._sample(device) for device in self._devices[:MAX_GPUS]]

    def _named(self, visible: str | None) -> list[str]:
        if visible is not None:
            return [name.strip() for name in visible.split(",") if name.strip()]
        count = ctypes.c_uint()
        found = self._library.nvmlDeviceGetCount_v2(ctypes.byref(count))
        return [str(index) for index in range(count.value)] if found == SUCCESS else []

    def _device(self, name: str) -> ctypes.c_void_p | None:
        """A device by its number or UUID, as CUDA names it; None for one that is not there."""
        device = ctypes.c_void_p()
        if name.isdigit():
            found = self._library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(name)), ctypes.byref(device))
        else:
            found = self._library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(device))
        return device if found == SUCCESS else None

    def _sample(self, device: ctypes.c_void_p) -> GpuSample:
        name, busy, memory, power_mw = (
            ctypes.create_string_buffer(NAME_BYTES),
            _Utilization(),
            _Memory(),
            ctypes.c_uint(),
        )
        library = self._library
        library.nvmlDeviceGetName(device, name, ctypes.c_uint(NAME_BYTES))
        has_busy = library.nvmlDeviceGetUtilizationRates(device, ctypes.byref(busy)) == SUCCESS
        has_memory = library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) == SUCCESS
        has_power = library.nvmlDeviceGetPowerUsage(device, ctypes.byref(power_mw)) == SUCCESS
        return GpuSample(
            name=name.value.decode(errors="replace"),
            busy=min(busy.gpu, 100) / 100 if has_busy else None,
            memory_bytes=memory.used if has_memory else None,
            memory_total_bytes=memory.total if has_memory else None,
            power_w=power_mw.value / 1000 if has_power else None,
        )


def nvml_open(library: str = LIBRARY) -> Nvml | None:
    """The driver's library, or None where there is none or it has no device to show."""
    try:
        loaded = ctypes.CDLL(library)
    except OSError:
        return None
    if loaded.nvmlInit_v2() != SUCCESS:
        return None
    return Nvml(loaded, os.environ.get("CUDA_VISIBLE_DEVICES"))
