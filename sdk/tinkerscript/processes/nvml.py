"""What NVIDIA's driver reports of the GPUs that this process sees, read from its library (NVML)
without a package.

Functions and structures: https://docs.nvidia.com/deploy/nvml-api. A call that a device, or a
library of an older driver, does not support gives None. How CUDA names devices: the CUDA C++
Programming Guide, "CUDA Environment Variables".
"""

import ctypes
import os
from typing import NamedTuple

LIBRARY = "libnvidia-ml.so.1"
SUCCESS = 0
NAME_BYTES = 96  # of a name and of a UUID
MAX_POWER_MW = 10**8
MAX_BYTES = 2**53 - 1


class GpuReading(NamedTuple):
    """What wire/reading/resources.py has of one GPU."""

    name: str
    busy: float | None
    memory_bytes: int | None
    memory_total_bytes: int | None
    power_w: float | None


class _Utilization(ctypes.Structure):
    # per cent of the last sampling period
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class Nvml:
    """The driver's library, loaded once. A call of it may take long: not for a thread that others
    wait for.

    ``visible`` and ``order`` are CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.
    """

    def __init__(self, library: ctypes.CDLL, visible: str | None, order: str | None = None) -> None:
        self._library = library
        self._devices = self._visible(visible, by_bus=order == "PCI_BUS_ID")

    def sample(self) -> list[GpuReading]:
        """Every visible GPU, in the order of CUDA_VISIBLE_DEVICES."""
        return [self._sample(device) for device in self._devices]

    def driver(self) -> str:
        """The version of the driver; "" where the library does not give it."""
        text = ctypes.create_string_buffer(NAME_BYTES)
        self._succeeds("nvmlSystemGetDriverVersion", text, ctypes.c_uint(NAME_BYTES))
        return text.value.decode(errors="replace")

    def least_memory_bytes(self) -> int | None:
        """The memory of the visible GPU that has the least; None where none gives it."""
        sizes = (gpu.memory_total_bytes for gpu in self.sample())
        return min((size for size in sizes if size is not None), default=None)

    def _visible(self, visible: str | None, *, by_bus: bool) -> list[ctypes.c_void_p]:
        """The GPUs that CUDA shows this process, whose list ends before the first name that is of
        none.

        NVML numbers them by the PCI bus, and CUDA only where it is told to. Elsewhere a number
        among GPUs of several kinds may be of another one: no GPU is shown then.
        """
        devices = self._all()
        if visible is None:
            return [device for device in devices if device is not None]
        are_alike = (
            len(
                {
                    self._text("nvmlDeviceGetName", device)
                    for device in devices
                    if device is not None
                }
            )
            <= 1
        )
        found: list[ctypes.c_void_p] = []
        for name in map(str.strip, visible.split(",")):
            if name.isdecimal() and not by_bus and not are_alike:
                return []
            device = self._named(name, devices)
            if device is None:
                break
            found.append(device)
        return found

    def _all(self) -> list[ctypes.c_void_p | None]:
        """Every GPU by its number; None for one that the driver lost."""
        count = ctypes.c_uint()
        if not self._succeeds("nvmlDeviceGetCount_v2", ctypes.byref(count)):
            return []
        devices: list[ctypes.c_void_p | None] = []
        for index in range(count.value):
            device = ctypes.c_void_p()
            found = self._succeeds(
                "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(device)
            )
            devices.append(device if found else None)
        return devices

    def _named(self, name: str, devices: list[ctypes.c_void_p | None]) -> ctypes.c_void_p | None:
        """A device by its number, the first characters of its UUID, or the UUID of a part of one
        (MIG)."""
        if name.isdecimal():
            return devices[int(name)] if int(name) < len(devices) else None
        if name.startswith("MIG-"):
            part = ctypes.c_void_p()
            found = self._succeeds("nvmlDeviceGetHandleByUUID", name.encode(), ctypes.byref(part))
            return part if found else None
        if not name.startswith("GPU-"):
            return None
        matching = [
            device
            for device in devices
            if device is not None and self._text("nvmlDeviceGetUUID", device).startswith(name)
        ]
        return matching[0] if len(matching) == 1 else None

    def _sample(self, device: ctypes.c_void_p) -> GpuReading:
        busy, memory, power_mw = _Utilization(), _Memory(), ctypes.c_uint()
        has_busy = self._succeeds("nvmlDeviceGetUtilizationRates", device, ctypes.byref(busy))
        has_memory = self._succeeds("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
        has_power = self._succeeds("nvmlDeviceGetPowerUsage", device, ctypes.byref(power_mw))
        power_known_mw = _known(power_mw.value, MAX_POWER_MW) if has_power else None
        return GpuReading(
            name=self._text("nvmlDeviceGetName", device),
            busy=min(busy.gpu, 100) / 100 if has_busy else None,
            memory_bytes=_known(memory.used, MAX_BYTES) if has_memory else None,
            memory_total_bytes=_known(memory.total, MAX_BYTES) if has_memory else None,
            power_w=None if power_known_mw is None else power_known_mw / 1000,
        )

    def _text(self, function: str, device: ctypes.c_void_p) -> str:
        text = ctypes.create_string_buffer(NAME_BYTES)
        self._succeeds(function, device, text, ctypes.c_uint(NAME_BYTES))
        return text.value.decode(errors="replace")

    def _succeeds(self, function: str, *arguments: object) -> bool:
        return _succeeds(self._library, function, *arguments)


def nvml_open(library: str = LIBRARY, *, visible: str | None = None) -> Nvml | None:
    """The driver's library, or None where there is none or it has no device to show.

    ``visible`` names devices in the order of the PCI bus; without it they are those that CUDA shows
    this process.
    """
    try:
        loaded = ctypes.CDLL(library)
    except OSError:
        return None
    if not _succeeds(loaded, "nvmlInit_v2"):
        return None
    if visible is not None:
        return Nvml(loaded, visible, "PCI_BUS_ID")
    return Nvml(loaded, os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("CUDA_DEVICE_ORDER"))


def _succeeds(library: ctypes.CDLL, function: str, *arguments: object) -> bool:
    """Whether a call succeeded; one that the library does not have did not."""
    called = getattr(library, function, None)
    return called is not None and bool(called(*arguments) == SUCCESS)


def _known(value: int, most: int) -> int | None:
    """None for NVML_VALUE_NOT_AVAILABLE, the largest number of its type."""
    return value if value <= most else None
